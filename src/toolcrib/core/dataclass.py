"""The decorator of all our dataclasses: the standard one, but quick to load.

`dataclasses.dataclass` compiles up to seven functions for each class (0.8 ms for a frozen one), and a start loads over
200 classes. Here the fields are the standard ones, so `fields`, `replace`, `asdict` and pydantic work. `__init__` is
compiled when a class is used often; nothing else is compiled.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType, MethodType
from typing import Any, TypeVar, dataclass_transform, overload

C = TypeVar("C", bound=type)
_FEW = 12
"""So many objects of a class are made before its `__init__` is compiled."""


@overload
def dataclass(cls: C, /) -> C: ...
@overload
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, unsafe_hash: bool = False, kw_only: bool = False
) -> Callable[[C], C]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    cls: Any = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    unsafe_hash: bool = False,
    kw_only: bool = False,
) -> Any:
    """Make a dataclass, as `dataclasses.dataclass` does. `InitVar` is not supported."""

    def decorate(cls: Any) -> Any:
        written: set[str] = set(cls.__dict__)
        if cls.__dict__.get("__hash__") is None and "__eq__" in written:
            written.discard("__hash__")  # Python put a None there, because the class has an `__eq__`
        cls.__doc__ = cls.__doc__ or cls.__name__  # else it reads the signature for one
        types = inspect.get_annotations(cls)
        # The standard decorator parses types that are texts, to find these two: a fifth of its work.
        marked = {name for name, type_ in types.items() if "ClassVar" in str(type_) or "KW_ONLY" in str(type_)}
        cls.__annotations__ = {name: type_ if name in marked else object for name, type_ in types.items()}
        standard = dataclasses.dataclass  # noqa: TID251
        made = standard(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        made.__annotations__ = types
        for name in types.keys() - marked:
            made.__dataclass_fields__[name].type = types[name]
        for name, method in _methods(made, frozen, slots, eq, unsafe_hash):
            if name not in written:
                setattr(made, name, method)
        return made

    return decorate if cls is None else decorate(cls)


def _methods(cls: Any, frozen: bool, slots: bool, eq: bool, unsafe_hash: bool) -> list[tuple[str, Any]]:
    fields = dataclasses.fields(cls)
    found: list[tuple[str, Any]] = [("__init__", _Init(cls, frozen)), ("__repr__", _shown)]
    if eq:
        found.append(("__eq__", _eq(_values([f.name for f in fields if f.compare]))))
    if unsafe_hash or (eq and frozen):
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        found.append(("__hash__", _hash(_values(hashed))))
    elif eq:
        found.append(("__hash__", None))
    if frozen:
        found += _refusing(cls, frozenset(f.name for f in fields))
    if frozen and slots:
        found += [("__getstate__", _state), ("__setstate__", _set_state)]
    return found


def _values(names: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function of an object that returns the values of these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda self: ()
    only = attrgetter(names[0])
    return lambda self: (only(self),)


def _eq(values: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _refusing(cls: type[Any], names: frozenset[str]) -> list[tuple[str, Any]]:
    """Return the methods that refuse to change a field. A subclass may have attributes of its own."""

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return [("__setattr__", assign), ("__delattr__", delete)]


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class _Init:
    """The place of an `__init__`, which is compiled when a class is used often and then takes this place: to compile
    one takes as long as many objects. The first objects get their fields one by one, with the same result."""

    __slots__ = ("_cls", "_frozen", "_uses")

    def __init__(self, cls: Any, frozen: bool) -> None:
        self._cls, self._frozen, self._uses = cls, frozen, 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self._uses += 1
        if instance is not None and self._uses <= _FEW:
            return partial(self._fill, instance)
        compiled = self._cls.__init__ = _init(self._cls, self._frozen)
        return compiled if instance is None else MethodType(compiled, instance)

    def _fill(self, instance: Any, /, *values: Any, **named: Any) -> None:
        fields = dataclasses.fields(self._cls)
        given = dict(zip([f.name for f in fields if f.init and not f.kw_only], values, strict=False))
        given.update(named)
        wrong = len(given) < len(values) + len(named)  # too many values, or two for a field
        put: Any = object.__setattr__ if self._frozen else setattr
        for field in fields:
            name = field.name
            if field.init and name in given:
                put(instance, name, given.pop(name))
            elif field.default_factory is not dataclasses.MISSING:
                put(instance, name, field.default_factory())
            elif field.default is not dataclasses.MISSING:
                put(instance, name, field.default)
            else:
                wrong |= field.init
        if wrong or given:
            _init(self._cls, self._frozen)(instance, *values, **named)  # raises the error of Python's own
        elif hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _init(cls: Any, frozen: bool) -> Any:
    """Compile the `__init__` of a dataclass."""
    space: dict[str, Any] = {"_absent": _ABSENT}
    usual: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            space[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _absent else {name}" if field.init else f"_make_{name}()"
            default = "=_absent"
        elif field.default is not dataclasses.MISSING:
            space[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        else:
            default = ""
            if not field.init:
                continue
        if field.init:
            (by_name if field.kw_only else usual).append(name + default)
        lines.append(_assignment(cls, name, value, space) if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *usual, *(["*", *by_name] if by_name else [])])
    body = "\n  ".join(lines or ["pass"])
    text = f"def make({', '.join(space)}):\n def __init__({parameters}):\n  {body}\n return __init__"
    made: dict[str, Any] = {}
    # The globals are those of the class's module, where the names in its annotations have their meaning.
    exec(text, sys.modules[cls.__module__].__dict__, made)  # noqa: S102 - the text is made of names of fields
    compiled = made["make"](**space)
    compiled.__module__, compiled.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    hints = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
    compiled.__annotations__ = {**hints, "return": None}
    return compiled


class _Absent:
    def __repr__(self) -> str:
        return "<made anew>"


_ABSENT = _Absent()
"""The default of a parameter whose value is made by a function."""


def _assignment(cls: Any, name: str, value: str, space: dict[str, Any]) -> str:
    """Return the line that sets an attribute that nobody else can set."""
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        space[f"_set_{name}"] = slot.__set__
        return f"_set_{name}(self, {value})"
    space["_set"] = object.__setattr__
    return f"_set(self, {name!r}, {value})"
