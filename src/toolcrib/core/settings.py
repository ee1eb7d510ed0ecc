"""The base class of all sections of the settings, the types and rules of their fields, and the check of their values.

A section is a frozen dataclass. `check` checks it with pydantic where a configuration is read and not before: nothing
here imports pydantic when it is loaded, and absent sections cost nothing. The annotations say which values are right,
and how an untrusted file may tighten a setting.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast, get_type_hints

from .dataclass import dataclass
from .empty import EMPTY
from .text import lazy_regex

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, SchemaValidator

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
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Section.__repr__  # so that no dataclass writes its own, with values that may be secret

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


@contextmanager
def with_descriptions() -> Generator[None]:
    """Let pydantic put the strings below fields into the schemas that it makes meanwhile.

    It reads and parses the source of each class for that, 7 ms a section. The check of a value needs none of it.
    """
    plain = Section.__pydantic_config__
    Section.__pydantic_config__ = {**plain, "use_attribute_docstrings": True}
    try:
        yield
    finally:
        Section.__pydantic_config__ = plain


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


_WORDS = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(key: str) -> str:
    """`requireFor`, `RequireFor` and `require_for` as `require_for`."""
    return _WORDS.sub("_", key).lower()


class Bounds:
    """The range of a number (`ge`, `gt`, `le`, `allow_inf_nan`) or of a text (`pattern`, `max_length`)."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        return {**handler(source), **self._limits}


class ErrorText:
    """The text of every error of a value, in place of one for each of its types and bounds."""

    def __init__(self, text: str) -> None:
        self._said = {"custom_error_type": "error_text", "custom_error_message": text}

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        return {"type": "custom-error", "schema": handler(source), **self._said}


class Converted:
    """A value of the right type becomes what `convert` returns. It raises ValueError with the reason."""

    _kind = "function-after"

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        function = {"type": "no-info", "function": self._convert}
        return {"type": self._kind, "function": function, "schema": handler(source)}


class Prepared(Converted):
    """The same, before the type of the value is checked."""

    _kind = "function-before"


class Checked(Converted):
    """A value of the right type stays as it is, unless `check` raises ValueError with the reason."""

    def __init__(self, check: Callable[[Any], object]) -> None:
        def checked(value: Any) -> Any:
            check(value)
            return value

        super().__init__(checked)


class _Absolute:
    """Makes a path absolute against the folder of the configuration file, which is the context of the validation."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> Any:
        function = {"type": "with-info", "function": self._absolute}
        return {"type": "function-after", "function": function, "schema": handler(source)}

    @staticmethod
    def _absolute(path: Path, info: Any) -> Path:
        return path if info.context is None else absolute(path, info.context)


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


# --- checking


_TEXTS = {
    "missing": "is missing",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "tuple_type": "should be a list",
    "dict_type": "should be a table of settings",
    "dataclass_type": "should be a table of settings",
    "path_type": "should be a path",
    "unexpected_keyword_argument": "there is no such setting",
}
"""Our texts in place of pydantic's, by the type of error."""


Keys = tuple[str, ...]
"""Where a setting is: its key, and those of the tables around it."""


@dataclass(frozen=True, slots=True)
class WrongValue:
    """A value that does not fit: its place, the reason, and the value. `words` are those that the setting allows."""

    path: Keys
    text: str
    given: Any
    words: tuple[str, ...] = ()
    shows_value: bool = True
    """Whether the text is about the value's type or size, so that a message goes on with the value."""


def check(
    annotation: Any, value: Any, path: Keys, folder: Path | None = None, *, from_text: bool = False
) -> tuple[Any, list[WrongValue]]:
    """Check a value. Returns it in the form of the settings (a section, for example), and all that is wrong.

    `path` is its place. Relative paths in it start at `folder`. `from_text` is for values that are texts, such as
    those of environment variables: then "5" is a number.
    """
    from pydantic_core import ValidationError

    try:
        return _validator(annotation, from_text).validate_python(value, context=folder), []
    except ValidationError as error:
        return None, [_violation(path, each) for each in error.errors(include_url=False)]


@functools.cache
def _validator(annotation: Any, from_text: bool) -> SchemaValidator:
    from pydantic_core import SchemaValidator

    from .schema import core_schema

    schema = core_schema(annotation)
    return SchemaValidator(schema if from_text else _strict(schema))


def _strict(schema: Any) -> Any:
    """Return a schema in which a text is not a number, and true is not a number. Lists and paths do not change."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        strict = {"strict": True} if node.get("type") in ("bool", "float", "int", "str") else {}
        return {key: _strict(value) for key, value in node.items()} | strict
    return [_strict(each) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _violation(path: Keys, error: ErrorDetails) -> WrongValue:
    path = (*path, *(str(key) for key in error["loc"] if key != "[key]"))
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return WrongValue(path, str(context["error"]), given, shows_value=False)
    if kind == "literal_error":
        words = tuple(re.findall(r"'([^']*)'", context["expected"]))
        return WrongValue(path, _one_of(words), given, words)
    text = _TEXTS.get(kind) or error["msg"].removeprefix("Input ")
    return WrongValue(path, text, given, shows_value=kind not in ("missing", "unexpected_keyword_argument"))


def _one_of(words: tuple[str, ...]) -> str:
    *others, last = (f'"{word}"' for word in words)
    return f"can be {', '.join(others)} or {last}" if others else f"can be {last}"
