"""The decorator of all our dataclasses: like the standard one, but quick to load.

`dataclasses.dataclass` compiles up to seven functions for each class (0.8 ms for a frozen one), and a start loads over
200 classes, half of which it never uses. Here the fields are made when they are first asked for; they are the standard
ones, so `fields`, `replace`, `asdict` and pydantic work. `__init__` is compiled when a class is used often; nothing
else is compiled.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any, TypeVar, cast, dataclass_transform, overload

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
        written = dict(cls.__dict__)
        if written.get("__hash__") is None and "__eq__" in written:
            del written["__hash__"]  # Python put a None there, because the class has an `__eq__`
        types = inspect.get_annotations(cls)
        marked = {name for name, type_ in types.items() if "ClassVar" in str(type_) or "KW_ONLY" in str(type_)}
        names = tuple(name for name in types if name not in marked)
        defaults: dict[str, Any] = {name: written[name] for name in names if name in written}
        for name, value in defaults.items():
            default: object = value
            if isinstance(value, dataclasses.Field):
                default = cast("dataclasses.Field[object]", value).default
                delattr(cls, name)
                if default is not dataclasses.MISSING and not slots:
                    setattr(cls, name, default)
            if type(default).__hash__ is None:
                raise ValueError(f"mutable default for field {name}: use default_factory")
        cls.__doc__ = cls.__doc__ or cls.__name__
        methods = _methods(frozen, slots, eq, unsafe_hash)
        added = {name: value for name, value in methods.items() if name not in written}
        added["__dataclass_fields__"] = _Fields(types, names, defaults, kw_only)
        if slots:  # only a new class can have them
            space = {name: value for name, value in cls.__dict__.items() if name not in defaults and name not in _OWN}
            space |= {"__slots__": names, "__qualname__": cls.__qualname__, **added}
            cls = type(cls)(cls.__name__, cls.__bases__, space)
        for name, value in added.items():
            if not slots:
                setattr(cls, name, value)
            if isinstance(value, _Later):
                value.cls, value.name = cls, name
        return cls

    return decorate if cls is None else decorate(cls)


_OWN = ("__dict__", "__weakref__")
"""The places of attributes of an object without slots."""


def _methods(frozen: bool, slots: bool, eq: bool, unsafe_hash: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "__dataclass_params__": _PARAMS, "__match_args__": _Later(_match_args), "__init__": _Init(frozen),
        "__repr__": _shown,
    }  # fmt: skip
    if eq:
        found["__eq__"] = _Later(_eq)
    if eq or unsafe_hash:
        found["__hash__"] = _Later(_hash) if frozen or unsafe_hash else None
    if frozen:
        found |= {"__setattr__": _assign, "__delattr__": _delete}
    if frozen and slots:
        found |= {"__getstate__": _state, "__setstate__": _set_state}
    return found


class _Later:
    """The place of an attribute of a class that is made where it is first asked for: most never are."""

    __slots__ = ("cls", "make", "name")
    cls: Any
    name: str

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        made = self.make(self.cls)
        setattr(self.cls, self.name, made)
        return made if instance is None or not isinstance(made, FunctionType) else MethodType(made, instance)


class _Fields(_Later):
    __slots__ = ("_parts",)

    def __init__(self, *parts: Any) -> None:
        self._parts: tuple[dict[str, Any], tuple[str, ...], dict[str, Any], bool] = parts

    def items(self) -> tuple[()]:
        """Return no fields to pydantic, which looks into the `__dict__` of a class for fields of its own."""
        return ()

    def make(self, cls: Any) -> dict[str, Any]:
        types, names, defaults, kw_only = self._parts
        found: dict[str, Any] = {}
        for parent in cls.__mro__[:0:-1]:
            found |= getattr(parent, "__dataclass_fields__", {})
        for name, type_ in types.items():
            if name in names:
                value = defaults.get(name, dataclasses.MISSING)
                field = isinstance(value, dataclasses.Field)
                made: Any = cast("Any", value) if field else dataclasses.field(default=value)
                made.name, made.type, made._field_type = name, type_, _USUAL
                made.kw_only = kw_only if made.kw_only is dataclasses.MISSING else made.kw_only
                found[name] = made
            kw_only = kw_only or "KW_ONLY" in str(type_)
        return found


_DOC = {"__doc__": "A class with one field."}  # else a signature is read for one
_PROBE: Any = dataclasses.make_dataclass("_", [("x", int)], init=False, repr=False, eq=False, namespace=_DOC)
_USUAL, _PARAMS = _PROBE.__dataclass_fields__["x"]._field_type, _PROBE.__dataclass_params__
"""The mark of a field that is no ClassVar. The standard decorator would make the same fields in five times as long."""


def _match_args(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls) if field.init and not field.kw_only)


def _values(names: Sequence[str]) -> Callable[[Any], Any]:
    """Return a function of an object that returns the values of these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda self: ()
    only = attrgetter(names[0])
    return lambda self: (only(self),)


def _eq(cls: Any) -> Callable[[Any, object], Any]:
    values = _values([field.name for field in dataclasses.fields(cls) if field.compare])

    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(cls: Any) -> Callable[[Any], int]:
    fields = dataclasses.fields(cls)
    values = _values([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _assign(self: Any, name: str, value: object) -> None:
    _refuse_fixed(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    _refuse_fixed(self, name, "delete")
    object.__delattr__(self, name)


def _refuse_fixed(self: Any, name: str, what: str) -> None:
    """Refuse to change a field. A subclass may have attributes of its own."""
    if "__dataclass_fields__" in type(self).__dict__ or any(name == each.name for each in dataclasses.fields(self)):
        raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class _Init(_Later):
    """The place of an `__init__`, which is compiled when a class is used often and then takes this place: to compile
    one takes as long as many objects. The first objects get their fields one by one, with the same result."""

    __slots__ = ("_frozen", "_uses")

    def __init__(self, frozen: bool) -> None:
        self._frozen, self._uses = frozen, 0

    def make(self, cls: Any) -> Any:
        return _init(cls, self._frozen)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self._uses += 1
        if instance is None or self._uses > _FEW:
            return super().__get__(instance, owner)
        return partial(self._fill, instance)

    def _fill(self, instance: Any, /, *values: Any, **named: Any) -> None:
        fields = dataclasses.fields(self.cls)
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
            _init(self.cls, self._frozen)(instance, *values, **named)  # raises the error of Python's own
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
