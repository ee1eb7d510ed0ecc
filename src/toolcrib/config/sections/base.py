"""What every section is made of: the base class and the types that several share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ..model import After, Before, Bounds, Model


def _expression(text: str) -> str:
    from ...policy.regexes import compile_pattern

    compile_pattern(text)
    return text


AnyPath = Path
Seconds = Annotated[float, Bounds(gt=0, finite=True)]
Count = Annotated[int, Bounds(ge=1, le=2**62)]
Json = dict[str, Any]
Expression = Annotated[str, After(_expression)]
"""A regular expression, as RE2 reads them."""
OneOrMore = Annotated[list[str], Before(lambda v: [v] if isinstance(v, str) else v)]


class Section(Model):
    """A group of settings. `spellings` are other names of its keys, taken from the designs.

    The string below a setting describes it in the published schema; it is read from the source there.
    """

    spellings: ClassVar[Mapping[str, str]] = {}
    foreign: ClassVar[frozenset[str] | None] = None
    """Set where unknown keys may belong to another program: they warn unless they look like a slip, these never."""
