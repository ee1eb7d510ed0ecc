"""What every section is made of: the base class and the types that several share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ...policy.regexes import compile_pattern

AnyPath = Annotated[Path, Field(strict=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=2**62)]
Json = dict[str, Any]
Expression = Annotated[str, AfterValidator(lambda text: compile_pattern(text).pattern)]
"""A regular expression that takes no exponential time."""
OneOrMore = Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]


class Section(BaseModel):
    """A group of settings. `spellings` are other names of its keys, taken from the designs.

    The string below a setting describes it in the published schema; it is read from the source there, not by pydantic
    at every start (25 ms).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    spellings: ClassVar[Mapping[str, str]] = {}
    foreign: ClassVar[frozenset[str] | None] = None
    """Set where unknown keys may belong to another program: they warn unless they look like a slip, these never."""
