"""Our tools in other agent frameworks: one file for each framework, and an extra of the same name.

Each file gives the tools of an open `Toolbox` in the form of its framework. Every call goes through the toolbox, so its
policy, approvals and record hold there, too. `questions` passes the answers of the framework's own pause on to them.
"""

from __future__ import annotations

from base64 import b64decode

from ..core.output import ImageBlock


def image_of(url: str) -> ImageBlock | None:
    """Return the image in a `data:` address; None if it is another address."""
    head, found, data = url.partition(";base64,")
    kind = head.removeprefix("data:")
    return ImageBlock(b64decode(data), kind) if found and head != kind and kind.startswith("image/") else None
