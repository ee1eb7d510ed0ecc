"""How an untrusted value is joined with the one that stands."""

import pytest

from toolcrib.core.tightening import Longer


@pytest.mark.parametrize(
    ("current", "proposed", "joined"),
    [(365, 400, (400, True)), (365, 30, (365, False)), (365, 0, (0, True)), (0, 30, (0, False)), (0, 0, (0, True))],
)
def test_what_is_kept_can_only_be_kept_longer(current, proposed, joined):
    assert Longer()(current, proposed) == joined
