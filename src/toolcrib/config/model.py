"""What is a section of settings? Typed fields with defaults, checked strictly, frozen, and dumped as plain data.

Our own and not pydantic's: building its validators for all sections took 0.3 s of CPU at each start of the command.
The types are those that settings need: str, int, float, bool, Path, Literal, lists, maps, unions with None, and
sections. `bool` is no number, a number no text; paths may be given as text.
"""

from __future__ import annotations

import math
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, Union, cast, dataclass_transform, get_args, get_origin

Loc = tuple[str, ...]
Wrongs = list["Wrong"]
Check = Callable[[Any, Loc, Wrongs], Any]
"""Takes a value, its path, and where to put what is wrong; returns the value as it counts."""

TRUE, FALSE = frozenset({"1", "on", "t", "true", "y", "yes"}), frozenset({"0", "off", "f", "false", "n", "no"})
"""What a text may say for a truth value, whatever its case."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong: where, of which kind, in which words, and the value. `words` are those it can be."""

    loc: Loc
    kind: Literal["missing", "unknown", "kind", "literal", "value"]
    text: str
    given: Any
    words: tuple[str, ...] = ()


class Invalid(ValueError):
    """Values that do not fit."""

    def __init__(self, wrongs: Iterable[Wrong]) -> None:
        self.wrongs = tuple(wrongs)
        super().__init__("; ".join(f"{'.'.join(each.loc) or 'settings'}: {each.text}" for each in self.wrongs))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number, or the length of a list, may be."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    finite: bool = False
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Before:
    """Changes a value before it is checked."""

    change: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class After:
    """Changes a value that has the right type, or raises ValueError with what is wrong with it."""

    change: Callable[[Any], Any]


class Field:
    """One setting: its type without the marks on it, the marks, its default and its check."""

    __slots__ = ("_copy", "annotation", "check", "default", "metadata", "required")

    def __init__(self, annotation: Any, default: Any, required: bool) -> None:
        self.annotation, self.metadata = _unmarked(annotation)
        self.default, self.required = default, required
        self._copy: Callable[[], Any] | None = default.copy if isinstance(default, list | dict) else None
        self.check = _check_of(annotation)

    def fresh(self) -> Any:
        """The default, for one owner."""
        return self._copy() if self._copy is not None else self.default


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Model:
    """The base of sections. A subclass's annotated attributes are its fields; ClassVars and `_private` names are not.

    The annotations of a subclass's module must be objects, not strings: no `from __future__ import annotations` there.
    """

    model_fields: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        fields = dict(cls.model_fields)
        for name, annotation in cls.__annotations__.items():
            if name.startswith("_") or get_origin(annotation) is ClassVar or annotation is ClassVar:
                continue
            given = cls.__dict__.get(name, _ABSENT)
            fields[name] = Field(annotation, given, given is _ABSENT)
        cls.model_fields = fields

    def __init__(self, **values: Any) -> None:
        """Check and keep. Raises Invalid with everything that is wrong."""
        wrongs: Wrongs = []
        self._fill(values, (), wrongs)
        if wrongs:
            raise Invalid(wrongs)

    @classmethod
    def model_validate(cls, values: Any) -> Self:
        """Make one of plain values, or take one as it is. Raises Invalid with everything that is wrong."""
        wrongs: Wrongs = []
        made = cls._checked(values, (), wrongs)
        if wrongs:
            raise Invalid(wrongs)
        return made

    @classmethod
    def _checked(cls, values: Any, loc: Loc, wrongs: Wrongs) -> Self:
        if isinstance(values, cls):
            return values
        made = cls.__new__(cls)
        if isinstance(values, dict):
            made._fill(cast("dict[str, Any]", values), loc, wrongs)
        else:
            wrongs.append(Wrong(loc, "kind", "should be a table of settings", values))
        return made

    def _fill(self, values: Mapping[str, Any], loc: Loc, wrongs: Wrongs) -> None:
        own, before = self.__dict__, len(wrongs)
        for name, field in self.model_fields.items():
            if name in values:
                own[name] = field.check(values[name], (*loc, name), wrongs)
            elif field.required:
                wrongs.append(Wrong((*loc, name), "missing", "is missing", None))
            else:
                own[name] = field.fresh()
        for name in values:
            if name not in self.model_fields:
                wrongs.append(Wrong((*loc, str(name)), "unknown", "there is no such setting", values[name]))
        own["_set"] = frozenset(values)
        if len(wrongs) == before:
            try:
                self.look_over()
            except ValueError as error:
                wrongs.append(Wrong(loc, "value", str(error), values))

    def look_over(self) -> None:
        """Check what several settings say together. Raises ValueError; subclasses define it."""

    def model_dump(self, *, mode: Literal["python", "json"] = "python", exclude_unset: bool = False) -> dict[str, Any]:
        """Plain data; `json` has paths as text, `exclude_unset` only what was given."""
        names = [name for name in self.model_fields if not exclude_unset or name in self.__dict__["_set"]]
        return {name: _plain(self.__dict__[name], mode, exclude_unset) for name in names}

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with other values, which are not checked."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.update(update)
        made.__dict__["_set"] = self.__dict__["_set"] | update.keys()
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings are frozen; {name} cannot be set: use model_copy(update=…)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings are frozen; {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(self.__dict__[k] == other.__dict__[k] for k in self.model_fields)

    __hash__ = None  # pyright: ignore[reportAssignmentType] # their lists and maps have none

    def __repr__(self) -> str:
        # without values: some are secret
        return f"<{type(self).__name__}: {', '.join(sorted(self.__dict__['_set'])) or 'defaults'}>"


_ABSENT = object()


def _plain(value: Any, mode: Literal["python", "json"], exclude_unset: bool) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode=mode, exclude_unset=exclude_unset)
    if isinstance(value, dict):
        return {key: _plain(inner, mode, exclude_unset) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(inner, mode, exclude_unset) for inner in cast("list[Any]", value)]
    return str(value) if mode == "json" and isinstance(value, Path) else value


# --- checks


def _unmarked(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(annotation) is Annotated:
        return annotation.__origin__, annotation.__metadata__
    return annotation, ()


def _check_of(annotation: Any) -> Check:
    plain, marks = _unmarked(annotation)
    check = _plain_check(plain)
    for mark in marks:
        if isinstance(mark, Bounds):
            check = _bounded(check, mark)
        elif isinstance(mark, After):
            check = _after(check, mark.change)
        elif isinstance(mark, Before):
            check = _before(check, mark.change)
    return check


def _plain_check(kind: Any) -> Check:
    if kind is Any:
        return lambda value, loc, wrongs: value
    if isinstance(kind, type) and issubclass(kind, Model):
        return cast("Any", kind)._checked
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is list:
        return _list_of(_check_of(args[0]))
    if origin is dict:
        return _dict_of(_check_of(args[1]))
    if origin is Literal:
        return _one_of(args)
    if origin in (Union, types.UnionType):
        return _union_of(args)
    raise TypeError(f"settings have no values of type {kind!r}")


def _scalar(fits: Callable[[Any], bool], text: str) -> Check:
    def check(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        if not fits(value):
            wrongs.append(Wrong(loc, "kind", text, value))
        return value

    return check


def _number(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrongs.append(Wrong(loc, "kind", "should be a valid number", value))
        return value
    try:
        return float(value)
    except OverflowError:
        wrongs.append(Wrong(loc, "kind", "should be a finite number", value))
        return value


def _path(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
    if isinstance(value, str | os.PathLike):
        return Path(cast("str | os.PathLike[str]", value))
    wrongs.append(Wrong(loc, "kind", "should be a path", value))
    return value


_SCALARS: dict[Any, Check] = {
    str: _scalar(lambda value: isinstance(value, str), "should be a valid string"),
    int: _scalar(lambda value: isinstance(value, int) and not isinstance(value, bool), "should be a valid integer"),
    bool: _scalar(lambda value: isinstance(value, bool), "should be true or false"),
    type(None): _scalar(lambda value: value is None, "should be null"),
    float: _number,
    Path: _path,
}
_JSON_KINDS: dict[Any, type | tuple[type, ...]] = {
    dict: dict,
    list: list,
    float: (int, float),
    Path: (str, os.PathLike),
}


def _list_of(item: Check) -> Check:
    def check(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [item(each, (*loc, str(number)), wrongs) for number, each in enumerate(items)]
        wrongs.append(Wrong(loc, "kind", "should be a list", value))
        return value

    return check


def _dict_of(item: Check) -> Check:
    def check(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        if not isinstance(value, dict):
            wrongs.append(Wrong(loc, "kind", "should be a table of settings", value))
            return value
        entries = cast("dict[Any, Any]", value)
        for key in entries:
            if not isinstance(key, str):
                wrongs.append(Wrong((*loc, str(key)), "kind", "should have a name that is a string", key))
        return {key: item(each, (*loc, str(key)), wrongs) for key, each in entries.items()}

    return check


def _one_of(words: tuple[str, ...]) -> Check:
    *others, last = (f'"{word}"' for word in words)
    text = f"can be {', '.join(others)} or {last}" if others else f"can be {last}"

    def check(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        if not isinstance(value, str) or value not in words:
            wrongs.append(Wrong(loc, "literal", text, value, words))
        return value

    return check


def _union_of(members: tuple[Any, ...]) -> Check:
    """The member that a value's kind names; where that is none, the first but None says what is wrong."""
    none = type(None) in members
    checks = [(_kind_of(member), _check_of(member)) for member in members if member is not type(None)]

    def check(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        if none and value is None:
            return None
        fitting = next((each for kind, each in checks if isinstance(value, kind)), checks[0][1])
        return fitting(value, loc, wrongs)

    return check


def _kind_of(annotation: Any) -> type | tuple[type, ...]:
    plain, _ = _unmarked(annotation)
    origin = get_origin(plain)
    if origin is Literal:
        return str
    if isinstance(plain, type) and issubclass(plain, Model):
        return (plain, dict)
    kind = cast("Any", plain if origin is None else origin)
    return _JSON_KINDS.get(kind) or kind


def _bounded(check: Check, bounds: Bounds) -> Check:
    def bounded(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        before = len(wrongs)
        value = check(value, loc, wrongs)
        if len(wrongs) == before and value is not None and (text := _beyond(value, bounds)):
            wrongs.append(Wrong(loc, "kind", text, value))
        return value

    return bounded


def _beyond(value: Any, bounds: Bounds) -> str:
    if bounds.length is not None:
        return "" if len(value) == bounds.length else f"should have {bounds.length} items"
    if bounds.finite and not math.isfinite(value):
        return "should be a finite number"
    if bounds.ge is not None and not value >= bounds.ge:  # so, because no bound holds for NaN
        return f"should be greater than or equal to {bounds.ge}"
    if bounds.gt is not None and not value > bounds.gt:
        return f"should be greater than {bounds.gt}"
    if bounds.le is not None and not value <= bounds.le:
        return f"should be less than or equal to {bounds.le}"
    return ""


def _after(check: Check, change: Callable[[Any], Any]) -> Check:
    def after(value: Any, loc: Loc, wrongs: Wrongs) -> Any:
        before = len(wrongs)
        value = check(value, loc, wrongs)
        if len(wrongs) != before:
            return value
        try:
            return change(value)
        except ValueError as error:
            wrongs.append(Wrong(loc, "value", str(error), value))
            return value

    return after


def _before(check: Check, change: Callable[[Any], Any]) -> Check:
    return lambda value, loc, wrongs: check(change(value), loc, wrongs)


# --- texts, for environment variables


def from_text(text: str, annotation: Any) -> Any:
    """What a text says for a setting of that type; the text itself where it says nothing, to be reported by a check."""
    kind = next((each for each in _members(annotation) if each is not type(None)), Any)
    if get_origin(kind) is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    word = text.strip().lower()
    if kind is bool:
        return True if word in TRUE else False if word in FALSE else text
    if kind in (int, float):
        try:
            number = float(word) if kind is float else int(word) if "." not in word else _whole(word)
        except ValueError:
            return text
        return number
    return text


def _whole(word: str) -> int:
    number = float(word)
    if not number.is_integer():
        raise ValueError(word)
    return int(number)


def _members(annotation: Any) -> Iterator[Any]:
    plain, _ = _unmarked(annotation)
    if get_origin(plain) in (Union, types.UnionType):
        for each in typing.get_args(plain):
            yield from _members(each)
    else:
        yield plain
