"""The answer of `read_file` about a document: its text, notes about it, and how to read on."""

from __future__ import annotations

from ...core.output import ToolOutput
from ..document_reading import DocumentText


def answer(found: DocumentText, name: str) -> ToolOutput:
    """Return the text with a footer, and the images as blocks, in order."""
    if found.kind == "image" and not found.unit:
        block = found.images[0]
        text = f"[image {name}, {found.text}; here {block.mime_type}, {len(block.data):,} bytes]"
    else:
        text = found.text if found.text.strip() or found.unit else f"({name} has no text)"
    notes = [f"(Note: {note}.)" for note in found.notes]
    footer = "" if found.kind == "image" and not found.unit else _footer(found)
    return ToolOutput("\n".join(part for part in (text, *notes, footer) if part), content=found.images)


def _footer(found: DocumentText) -> str:
    whole = f"{found.count:,} {found.unit}{'' if found.count == 1 else 's'}"
    if found.next is None:
        if not found.unit:
            return f"(End of {found.kind} - {found.lines or 0:,} lines in all.)"
        everything = found.shown in (f"1-{found.count}", "1") and found.count > 0
        return f"({'End of' if everything else 'From a'} {found.kind} - {whole} in all.)"
    pages, offset = found.next
    onwards = [f'pages="{pages}"'] if pages else []
    onwards += [f"offset={offset}"] if offset > 1 else []
    some = "s" if not found.shown.isdigit() else ""
    here = f"{found.unit.capitalize()}{some} {found.shown} of {found.count:,}" if found.unit else found.kind
    return f"({here}. Use {' '.join(onwards)} to continue.)"
