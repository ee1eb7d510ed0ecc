"""For pytest: the fixture `cassette`, with the recorded outputs of a test's calls.

`pytest_plugins = ["toolcrib.testing.plugin"]` in the `conftest.py` of your tests makes it available.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import pytest

from ..record.cassette import CassettePlayer, record_calls, replay_calls

if TYPE_CHECKING:
    from ..toolbox import Toolbox


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records."""
    parser.addoption("--record-cassettes", action="store_true", help="Run the tools, and record their outputs anew.")


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Generator[Callable[[Toolbox], None]]:
    """Return a function: `cassette(box)` answers the calls of a toolbox from a file in `cassettes` next to the test.

    With `pytest --record-cassettes` the tools run, and the file is written. A replay that leaves answers over fails.
    """
    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    path = request.path.parent / "cassettes" / f"{request.path.stem}.{name}.cassette"
    players: list[CassettePlayer] = []

    def insert(box: Toolbox) -> None:
        if request.config.getoption("--record-cassettes"):
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            record_calls(box, path)
        elif path.exists():
            players.append(replay_calls(box, path))
        else:
            pytest.fail(f"there is no {path}: `pytest --record-cassettes` runs the tools and makes it", pytrace=False)

    yield insert
    if left := sum(player.left for player in players):
        pytest.fail(f"{left} calls of {path} were not made again", pytrace=False)
