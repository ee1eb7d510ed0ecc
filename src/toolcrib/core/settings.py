"""The base class of all sections of the settings, and the types that their fields may have.

A section is a frozen dataclass. pydantic checks it where a configuration is read (`config/check.py`) and not before:
nothing here imports pydantic when it is loaded. The annotations say which values are right, and how an untrusted file
may tighten a setting (`core/tightening.py`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

from .empty import EMPTY

Handler = Callable[[Any], Any]
"""pydantic's: makes the schema of a type."""


class Section:
    """A group of settings. The string below a field describes it in the published schema."""

    __slots__ = ()

    __dataclass_fields__: ClassVar[Mapping[str, Any]]
    spellings: ClassVar[Mapping[str, str]] = EMPTY
    """Other names that a configuration may use for a field."""
    foreign: ClassVar[frozenset[str] | None] = None
    """Set where an unknown key may belong to another program: such a key is a warning unless it looks like a slip.
    The keys listed here are never taken for slips."""
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "use_attribute_docstrings": True}

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Section.__repr__  # so that no dataclass writes its own, with values that may be secret

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class NotASetting:
    """Marks a field that no configuration can set."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        return {"type": "any"}

    def __get_pydantic_json_schema__(self, source: Any, handler: Handler) -> Any:
        from pydantic_core import PydanticOmit

        raise PydanticOmit


@functools.cache
def annotations_of(section: type[Section]) -> dict[str, Any]:
    """Every setting of a section by name, with its annotation. ClassVars and fields marked NotASetting are left out."""
    return {
        name: hint
        for name, hint in get_type_hints(section, include_extras=True).items()
        if name in section.__dataclass_fields__ and not isinstance(_last_mark(hint), NotASetting)
    }


_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(key: str) -> str:
    """`requireFor`, `RequireFor` and `require_for` as `require_for`."""
    return _WORDS.sub("_", key).lower()


class Bounds:
    """The range of a number: `ge`, `gt`, `le`, `allow_inf_nan`."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        return {**handler(source), **self._limits}


@dataclass(frozen=True, slots=True)
class Either:
    """A union whose error is one text instead of one for each of its types."""

    text: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        return {**handler(source), "custom_error_type": "either", "custom_error_message": self.text}


@dataclass(frozen=True, slots=True)
class Checked:
    """A value of the right type is passed through `check`, which returns it, or raises ValueError with the reason."""

    check: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A value is passed through `change` before its type is checked."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.change, handler(source))


class _Absolute:
    """Makes a path absolute against the folder of the configuration file, which is the context of the validation."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        from pydantic_core import core_schema

        def check(path: Path, info: Any) -> Path:
            return path if info.context is None else absolute(path, info.context)

        return core_schema.with_info_after_validator_function(check, handler(source))


def absolute(path: str | os.PathLike[str], folder: Path) -> Path:
    """An absolute path: `~` is expanded, a relative path starts at `folder`. Raises ValueError for a NUL character."""
    text = os.fspath(path)
    if "\0" in text:
        raise ValueError("a path cannot contain a NUL character")
    return Path(os.path.abspath(folder / os.path.expanduser(text)))


def as_list(value: Any) -> Any:
    """Return a list with a text in it; any other value as it is."""
    return [value] if isinstance(value, str) else value


def _last_mark(annotation: Any) -> Any:
    return getattr(annotation, "__metadata__", (None,))[-1]


AnyPath = Annotated[Path, _Absolute()]
Seconds = Annotated[float, Bounds(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Bounds(ge=1, le=2**62)]
Json = dict[str, Any]
OneOrMore = Annotated[tuple[str, ...], Prepared(as_list)]
"""A list of texts; one text may be written without the list."""
