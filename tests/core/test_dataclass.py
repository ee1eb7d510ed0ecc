"""Our dataclasses behave as the standard ones do, whatever fields they have."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, field, fields, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from toolcrib.core.dataclass import dataclass

T = TypeVar("T")
Decorator = Callable[..., Any]
OPTIONS: list[dict[str, bool]] = [
    {}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"eq": False},
    {"slots": True, "unsafe_hash": True}, {"frozen": True, "eq": False},
    {"slots": True, "kw_only": True},
]  # fmt: skip


def bodies(decorate: Decorator) -> list[Any]:
    """Return classes of every kind of field, made by a decorator."""

    class Empty:
        pass

    class One:
        """Has one field."""

        name: str

    class Many:
        shared: ClassVar[int] = 3
        name: str
        size: int = 2
        hidden: bytes = field(default=b"", repr=False)
        aside: object = field(default=None, compare=False)
        unhashed: int = field(default=0, hash=False)
        _: KW_ONLY
        later: list[int] = field(default_factory=lambda: [1])
        fixed: int = field(default=7, init=False)
        made: tuple[int, ...] = field(default_factory=tuple, init=False)

        def __repr__(self) -> str:
            return f"many {self.name}"

    class After:
        text: str

        def __post_init__(self) -> None:
            object.__setattr__(self, "text", self.text.strip())

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

    return [decorate(cls) for cls in (Empty, One, Many, After)]


def shown(work: Callable[[], Any]) -> Any:
    """Return what a piece of work gives, or the class and the text of its error."""
    try:
        return work()
    except Exception as error:
        return type(error), str(error).replace("Many.__init__()", "__init__()").replace("One.__init__()", "__init__()")


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), (("a",), {}), (("a", 5), {}), (("a",), {"later": [2]}), (("a", 1, b"x", 2, 3), {}),
    (("a", 1, b"x", 2, 3, 4), {}),
    (("a",), {"fixed": 1}), ((), {"name": "b"}), ((), {"text": " b "}), (("a",), {"wrong": 1}),
    (("a",), {"name": "b"}), ((), {"wrong": 1}), (("a", "b"), {"name": "c", "wrong": 1}), ((), {"self": 1}),
]  # fmt: skip


@pytest.mark.parametrize("few", [0, 1000])  # with a compiled `__init__`, and without one
@pytest.mark.parametrize("options", OPTIONS)
def test_as_the_standard_decorator(options: dict[str, bool], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.core.dataclass._FEW", few)
    for ours, standard in zip(bodies(dataclass(**options)), bodies(dataclasses.dataclass(**options)), strict=True):
        assert [(f.name, f.type, f.default, f.init) for f in fields(ours)] == [
            (f.name, f.type, f.default, f.init) for f in fields(standard)
        ]
        assert inspect.get_annotations(ours) == inspect.get_annotations(standard)
        assert ours.__match_args__ == standard.__match_args__
        assert hasattr(ours, "__slots__") == hasattr(standard, "__slots__")
        assert ours.__module__ == __name__
        for values, named in CALLS:
            made, wanted = (shown(partial(cls, *values, **named)) for cls in (ours, standard))
            if isinstance(wanted, tuple):
                assert made == wanted
                continue
            assert repr(made) == repr(wanted)
            assert asdict(made) == asdict(wanted)
            assert type(shown(partial(hash, made))) is type(shown(partial(hash, wanted)))
            again, other = (cls(*values, **named) for cls in (ours, standard))
            assert (made == again) == (wanted == other)
            assert made != wanted
            for name in [f.name for f in fields(ours)]:
                assert shown(partial(setattr, made, name, "x")) == shown(partial(setattr, wanted, name, "x"))
                assert shown(partial(delattr, made, name)) == shown(partial(delattr, wanted, name))
                for each in (made, wanted):
                    object.__setattr__(each, name, "y")
            assert asdict(made) == asdict(wanted)


@dataclass(frozen=True, slots=True)
class Point(Generic[T]):
    """A place."""

    x: int
    y: T
    names: tuple[str, ...] = field(default=(), compare=False)


class Own(Point[int]):
    """A subclass that is no dataclass, with an attribute of its own."""

    def __init__(self, x: int) -> None:
        super().__init__(x, 0)
        self.extra = x


@dataclass(frozen=True, slots=True)
class Wider(Point[int]):
    z: int = 3
    y: int = 5


@given(st.integers(), st.text(), st.lists(st.text()).map(tuple))
def test_values_stay_what_they_were(x: int, y: str, names: tuple[str, ...]) -> None:
    point = Point(x, y, names)
    assert (point.x, point.y, point.names) == (x, y, names)
    assert point == replace(point, names=("other",))
    assert hash(point) == hash(replace(point, names=()))
    for same in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (same, same.names) == (point, names)
    assert repr(point) == f"Point(x={x!r}, y={y!r}, names={names!r})"


def test_frozen_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Point(1, 2).x = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del Point(1, 2).x  # type: ignore[misc]
    own = Own(1)
    assert own.extra == 1
    del own.extra
    with pytest.raises(FrozenInstanceError):
        own.x = 3  # type: ignore[misc]


def test_a_subclass_has_the_fields_of_its_parents() -> None:
    assert [f.name for f in fields(Wider)] == ["x", "y", "names", "z"]
    assert repr(Wider(1)) == "Wider(x=1, y=5, names=(), z=3)"
    assert Wider(1) != Point(1, 5)
    match Wider(1, 2):
        case Wider(x, y):
            assert (x, y) == (1, 2)


def test_a_recursive_value_can_be_shown() -> None:
    point = Point(1, [0])
    point.y[0] = point  # type: ignore[call-overload]
    assert repr(point) == "Point(x=1, y=[...], names=())"


def test_signature_and_pydantic_see_a_dataclass() -> None:
    assert list(inspect.signature(Wider, eval_str=True).parameters) == ["x", "y", "names", "z"]
    assert inspect.signature(Wider, eval_str=True).parameters["x"].annotation is int
    assert TypeAdapter(Wider).validate_python({"x": "4"}) == Wider(4)


def test_init_is_compiled_once_when_a_class_is_used_often() -> None:
    @dataclass(slots=True)
    class Late:
        x: int = 1

    assert [Late().x for _ in range(5)] == [1] * 5
    assert not inspect.isfunction(vars(Late)["__init__"])
    assert [Late(n).x for n in range(20)] == list(range(20))
    compiled = vars(Late)["__init__"]
    assert inspect.isfunction(compiled)
    assert Late(2).x == 2
    assert vars(Late)["__init__"] is compiled
    assert compiled.__qualname__.endswith("Late.__init__")


def test_a_wrong_default_fails_where_the_class_is_made() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass
        class Wrong:
            x: list[int] = []  # noqa: RUF012

    assert "Wrong" not in locals()


def test_threads_may_use_a_class_first_at_once() -> None:
    @dataclass(frozen=True, slots=True)
    class Late:
        x: int

    start, found = threading.Barrier(8), []

    def use() -> None:
        start.wait()
        found.extend(Late(1) for _ in range(3))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Late(1)] * 24
