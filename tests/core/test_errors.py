"""The error tree."""

from __future__ import annotations

import pickle

from toolcrib.core import errors
from toolcrib.core.errors import InvalidArguments, OutsideWorkspace, ToolcribError, ToolNotFoundError, Violation


def test_one_root_and_true_parents() -> None:
    found = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, Exception)]
    assert len(found) > 10 and all(issubclass(error, ToolcribError) for error in found)
    assert issubclass(ToolNotFoundError, KeyError) and issubclass(OutsideWorkspace, PermissionError)
    assert issubclass(InvalidArguments, ValueError)


def test_texts_are_the_texts() -> None:
    assert str(ToolNotFoundError("no 'x'")) == "no 'x'" and str(OutsideWorkspace("not there")) == "not there"
    error = InvalidArguments([Violation("a", "a is bad"), Violation("b", "b is worse")])
    assert str(error) == "a is bad; b is worse" and str(error.violations[0]) == "a is bad"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
