"""What a docstring says of a function and its parameters."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core import functions
from toolcrib.core.functions import first_sentence, read_docstring
from toolcrib.core.tool import tool

GOOGLE = """Send a message.

    It goes to one channel. E.g. to a chat.

    Args:
        to (str): Who gets it.
        text: What it says,
            over two lines.
        **more: The rest.

    Returns:
        An id.

    Raises:
        ValueError: Never.
    """
NUMPY = """Send a message.

    It goes to one channel. E.g. to a chat.

    Parameters
    ----------
    to : str
        Who gets it.
    text : str, optional
        What it says,
        over two lines.

    Returns
    -------
    str
        An id.
    """
SPHINX = """Send a message.

    It goes to one channel. E.g. to a chat.

    :param to: Who gets it.
    :type to: str
    :param str text: What it says,
        over two lines.
    :returns: An id.
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_three_styles(doc: str) -> None:
    read = read_docstring(doc)
    assert read.text == "Send a message.\n\nIt goes to one channel. E.g. to a chat."
    assert read.parameters["to"] == "Who gets it." and read.parameters["text"] == "What it says, over two lines."


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_descriptions_reach_the_schema(doc: str) -> None:
    def send(to: str, text: str = "") -> str:
        return ""

    send.__doc__ = doc
    t = tool(send)
    assert t.schema["properties"]["to"]["description"] == "Who gets it."
    assert t.schema["properties"]["text"] == {
        "type": "string", "default": "", "description": "What it says, over two lines.",
    }  # fmt: skip
    assert t.description.startswith("Send a message.") and "Args" not in t.description
    assert t.summary == "Send a message."


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Look up.\n\nReturns:\n    A thing.", "Look up."),
        ("Look up.\n\n:returns: a thing", "Look up."),
        ("Compare a: b and c: d.", "Compare a: b and c: d."),
        ("Args are not a section here.", "Args are not a section here."),
    ],
)
def test_no_parameters(doc: str | None, text: str) -> None:
    read = read_docstring(doc)
    assert read.text == text and read.parameters == {}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("No end", "No end"),
        ("First line\nsecond line. Third", "First line second line."),
        ("Version 1.5 is out. Yes.", "Version 1.5 is out."),
        ("What?! Yes.", "What?!"),
        ("Heading\n\nBody.", "Heading"),
        ("", ""),
    ],
)
def test_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first


@given(st.text(max_size=200) | st.text(alphabet="Args:Parameters-\n :param x", max_size=200))
def test_any_docstring_can_be_read(doc: str) -> None:
    read = read_docstring(doc)
    assert isinstance(read.text, str)


@pytest.mark.parametrize(
    "doc",
    [
        "Do it.\n\nArgs:\n    a: One.\n    b: Two\n        lines, and `x: y`.\n",
        "Do it.\nMore.\n\nArguments:\n    a: One: two.\n      less indented.",
        "Args:\n    a: Nothing before it.",
        "Do it.\n\n\nParams:\n    a: One.\n\n",
        "Do it.\n\nArgs:\n    a (int): With a type.\n    *rest: More.\n",
        "Do it.\n\nArgs:\n    a: One.\n\nReturns:\n    Something.",
        "Do it.\n\nNote:\n    First.\n\nArgs:\n    a: One.",
        "Do it.\n\nArgs:\n    a: One.\n    b:\n        On the next line.",
        "Do it.\n\nArgs:\n    a: One.\n\n    b: Two.",
        "Do it.\n\nArgs:\n  a: Two spaces.",
        "Do it.\n\nArgs:\n    a: One.\n    a: Again.",
        "Do it.\n\nArgs:\n    a: One.\n\nProse behind.",
        "Do it:\n\nArgs:\n    a: One.\n    b: ```\n        code\n        ```",
    ],
)
def test_what_is_read_without_griffe_is_read_as_griffe_does(doc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_docstring(doc)
    monkeypatch.setattr(functions, "_plain_google", lambda clean: None)
    assert read_docstring(doc) == found


def test_plain_docstrings_need_no_griffe() -> None:
    code = (
        "import sys; from toolcrib.core.functions import read_docstring as r\n"
        "assert r('Do it.\\n\\nArgs:\\n    a: One.').parameters == {'a': 'One.'}; assert 'griffe' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
