"""Find the effects of a sed script, apart from printing: files it reads and writes, commands it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..effects import Effect
from ..sorting import literal

_ADDRESS = re.compile(r"\d+(?:~\d+)?|\$|[+~]\d+")
_SIMPLE = frozenset("=dDgGhHlnNpPqQxzFL")
_TEXT = frozenset("aic")
_FILES = {"r": "read", "R": "read", "w": "write", "W": "write"}


class _Unclear(Exception):
    pass


def sed_effects(script: str) -> Iterator[Effect]:
    """Yield the effects of a script; a script that cannot be followed is unknown."""
    try:
        yield from _Script(script).effects()
    except (_Unclear, IndexError):
        yield Effect("unknown", None, "runs a sed script that cannot be followed", "shell:unknown-code")


class _Script:
    """A position in a sed script."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def effects(self) -> Iterator[Effect]:
        text = self.text
        while self.at < len(text):
            self._skip(" \t\n;{}")
            if self.at >= len(text):
                return
            if text[self.at] == "#":
                self._line()
                continue
            self._addresses()
            command = text[self.at]
            self.at += 1
            yield from self._command(command)

    def _skip(self, characters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1

    def _line(self) -> str:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at : end], end
        return line.strip()

    def _addresses(self) -> None:
        while True:
            match = _ADDRESS.match(self.text, self.at)
            if match:
                self.at = match.end()
            elif self.text[self.at] == "/":
                self.at += 1
                self._until("/")
                self._skip("IM")
            elif self.text[self.at] == "\\":
                delimiter = self.text[self.at + 1]
                self.at += 2
                self._until(delimiter)
                self._skip("IM")
            else:
                self._skip(" \t!")
                return
            self._skip(" \t")
            if self.at < len(self.text) and self.text[self.at] == ",":
                self.at += 1
                self._skip(" \t")
            else:
                self._skip(" \t!")
                return

    def _until(self, delimiter: str) -> str:
        """Return the text up to an unescaped delimiter. In brackets only GNU's sed allows it: raises `_Unclear`."""
        start = self.at
        while True:
            character = self.text[self.at]
            if character == "\\":
                self.at += 2
                continue
            if character == "[":
                closing = self.text.find("]", self.at + 2)
                if closing > 0 and delimiter in self.text[self.at : closing]:
                    raise _Unclear
            self.at += 1
            if character == delimiter:
                return self.text[start : self.at - 1]

    def _command(self, command: str) -> Iterator[Effect]:
        if command in _SIMPLE:
            self._skip(" \t0123456789")
        elif command in "{}":
            return
        elif command in _TEXT:
            self._text()
        elif command in ":btT":
            while self.at < len(self.text) and self.text[self.at] not in ";\n}":
                self.at += 1
        elif command in _FILES:
            yield Effect(_FILES[command], literal(self._line()))
        elif command == "e":
            yield from self._execute(self._line())
        elif command == "s":
            yield from self._substitute()
        elif command == "y":
            delimiter = self.text[self.at]
            self.at += 1
            self._until(delimiter)
            self._until(delimiter)
        else:
            raise _Unclear
        self._skip(" \t")

    def _text(self) -> None:
        """Skip text to add: it continues to the end of the line, and further if the line ends in a backslash."""
        while True:
            line = self._line()
            if not line.endswith("\\") or self.at >= len(self.text):
                return
            self.at += 1

    def _substitute(self) -> Iterator[Effect]:
        delimiter = self.text[self.at]
        self.at += 1
        self._until(delimiter)
        replacement = self._until(delimiter)
        while self.at < len(self.text):
            flag = self.text[self.at]
            if flag in "gpIiMm0123456789":
                self.at += 1
            elif flag == "e":
                self.at += 1
                text = replacement.replace(f"\\{delimiter}", delimiter)
                yield Effect("shell", literal(text), "runs what sed makes of a line as a command")
            elif flag == "w":
                self.at += 1
                yield Effect("write", literal(self._line()))
                return
            else:
                return

    def _execute(self, line: str) -> Iterator[Effect]:
        if line:
            yield Effect("shell", literal(line), "runs a command from a sed script")
        else:
            yield Effect("execute", None, "runs its input as commands", "shell:unknown-code")
