"""Find the files of a workspace that the settings of other agents name in a command (a hook, a server, a status line):
the agent runs them outside any wall. So do direnv and mise with what theirs name, on entering a folder, and shells with
what their start files name.

JSON with comments and TOML are read by their strings alone. What such a file imports, and what a package manager runs,
is not followed.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..core.errors import ConfigError
from ..core.text import lazy_regex
from .descriptors import unreadable
from .git_index import read_while_same
from .host_file import HostFile, both_names
from .launchers import SIGNS
from .programs import beneath, loads_something
from .protected_names import AGENT_SETTINGS, SHELL_STARTS, protected_by
from .script_imports import text_of
from .scripts import SCRIPTS, path_in

_MAX_BYTES = 1 << 18  # of one file
_MAX_WORDS = 1_000
_MAX_FILES = 50  # of one folder with settings
_MAX_NAMED = 10_000  # files that all settings of a workspace together name
_MAX_SEEN = 100_000  # their words, each from every folder that it is seen from
_MAX_FOLDERS = 10  # that commands name: their other words may be seen from there
_SHELL = (".envrc", *SHELL_STARTS)
_ENDS = (".json", ".jsonc", ".toml", *_SHELL)
_FIRSTS = dict.fromkeys(name.split("/")[0] for name in AGENT_SETTINGS)
_CALLED = {
    "mcp": "Claude Code", "claude": "Claude Code", "github": "GitHub Copilot", "vscode": "VS Code",
    "envrc": "direnv", "mise": "mise", **{name[1:]: "A shell" for name in SHELL_STARTS},
}  # fmt: skip
_PLACE = "//"  # we put it at the end of a word that counts only as a folder or a program
_PROGRAM = lazy_regex(r"[\w.+-]*\w[\w.+-]*")
_STRING = lazy_regex(r"""\"((?:[^"\\\n]|\\.)*)"?\s*([:=]?)|'([^'\n]*)'|(?<![\w-])([\w-]+)[ \t]*=""")
_RUN = lazy_regex(  # keys, in lower case, whose values are a command, a part of one, or the folder where it runs
    r"\w*command|args|\w*helper|bash|powershell|notify|install|start|setup-worktree.*|aws\w+|\w*cwd|dir(ectory)?"
    r"|source|enter|leave|cd|script"
)
_SOURCED = lazy_regex(
    r"""(?:(?<!\S)\.|\bsource(?:_env(?:_if_exists)?)?)[ \t]+["']?([^\s;&|<>()"'`$-][^\s;&|<>()"'`$]*)"""
)
_DOTENV = lazy_regex(r"""\bdotenv(?:_if_exists)?\b[ \t]*["']?([^\s;&|<>()"'`$]*)""")  # variables can run code
_NIX = ("./shell.nix", "./default.nix")
_OF_TOOL = {  # what a tool that makes an environment reads in the folder: `use flake`, `eval "$(devbox …)"`
    "flake": ("./flake.nix", "./flake.lock"), "nix": _NIX, "lorri": _NIX, "guix": ("./guix.scm", "./manifest.scm"),
    "devenv": (
        "./devenv.nix", "./devenv.local.nix", "./devenv.yaml", "./devenv.local.yaml", "./devenv.lock", "./.devenv",
    ),
    "devbox": ("./devbox.json", "./devbox.lock", "./.devbox"), "flox": ("./.flox",),
    "pixi": ("./pixi.toml", "./pyproject.toml", "./pixi.lock", "./.pixi"),
}  # fmt: skip
_OF_TOOLS = frozenset(name for names in _OF_TOOL.values() for name in names)
_COMMENT = lazy_regex(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_OF_MISE = lazy_regex(r"\b(?:_\.|mise\.|env_)file[ \t]*=[ \t]*(\[[^\[\]]*\]|[^\n]*)")  # with variables, too
_HOME = lazy_regex(r"\$\{HOME\}|\$HOME\b")
_VARIABLE = lazy_regex(r"""(["']?)(?:\{\{[^{}\n]*\}\}|\$\{[^{}\n]*\}|\$(?:env:)?\w+|\$\([^()\n]*\)|%\w+%)\1(?=/)""")
_INNER = lazy_regex(r"""(?<=/)["']|["'](?=/)""")  # a quote within a path: "$HOME"/a
_QUOTED = lazy_regex(r"""["']([^"'\n]+)["']""")


def named_by_agents(root: str, folders: Iterable[str]) -> list[HostFile]:
    """Return the files beneath `root` (its real path) that a command in the settings in one of these folders, or above
    it, names. What is not there yet counts, too, if it is written as the path of a script. Raises ConfigError if they
    name too much to look at."""
    found: dict[str, HostFile] = {}
    seen: set[str] = set()
    words_seen = 0
    for folder in folders:
        while folder not in seen:
            seen.add(folder)
            for settings in _settings(folder):
                bases = [folder] if beneath(folder, root) else [folder, root]
                parts = settings[len(folder) :].strip("/.").replace(".", "/").split("/")
                agent = parts[parts[0] == "config"]
                who = _CALLED.get(agent, agent.capitalize())
                why = f"{who} runs it outside the sandbox, as you ({os.path.relpath(settings, root)} names it)"
                words = _read(_words, settings)
                for path in both_names(_files(words, bases, root)):
                    if beneath(path, root) and protected_by(path[len(root) :]) is None:
                        found.setdefault(path, HostFile(path, why))
                words_seen += len(words) * len(bases)
                if len(found) > _MAX_NAMED or words_seen > _MAX_SEEN:
                    raise ConfigError(
                        f"{settings} and other settings name too much for agents and shells to run, so what they run "
                        "is not known; shorten them"
                    )
            folder = os.path.dirname(folder)
    return list(found.values())


def _settings(folder: str) -> Iterator[str]:
    """Yield the files with settings of agents in a folder."""
    for path in _read(_there, folder):
        yield from [path] if path.endswith(_ENDS) else _read(_listed, path)


def _read(reading: Any, path: str) -> tuple[str, ...]:
    with unreadable:
        return read_while_same(reading, path)
    return ()


@functools.lru_cache(10_000)
def _there(folder: str, *_state: int) -> tuple[str, ...]:
    firsts = [first for first in _FIRSTS if os.path.lexists(f"{folder}/{first}")]
    return tuple(f"{folder}/{name}" for name in (AGENT_SETTINGS if firsts else ()) if name.split("/")[0] in firsts)


@functools.lru_cache(1_000)
def _listed(folder: str, *_state: int) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(_ENDS))[:_MAX_FILES]


@functools.lru_cache(1_000)
def _words(path: str, *_state: int) -> tuple[str, ...]:
    """Return the words of all commands in a file, each once."""
    key, found = "", dict[str, None]()
    if path.endswith(_SHELL):
        text = _plain(_COMMENT.sub("", text_of(path, _MAX_BYTES)))
        words = SIGNS.split(text)
        scripts = (word for word in words if word.startswith(("./", ".env")) or word.endswith(SCRIPTS))
        ours = (f"{word}{_PLACE}" for word in words if word.startswith(("~/", f"{os.path.expanduser('~')}/")))
        named = _DOTENV.findall(text)
        if named and not path.endswith(".envrc"):
            named.append(".env")  # by a plugin of zsh: `plugins=(dotenv git)`
        sourced = (*_SOURCED.findall(text), *(word or ".env" for word in named))
        read = (  # an environment may be made anew
            word if word[0] in "/~" or word.endswith("/activate") else f"./{word}" for word in sourced
        )
        used = (name for word in words for name in _OF_TOOL.get(word.removeprefix("use_"), ()))
        return tuple(dict.fromkeys(word for word in (*read, *used, *scripts, *ours) if len(word) < 4096))[:_MAX_WORDS]
    whole = text_of(path, _MAX_BYTES)
    for word in (word for named in _OF_MISE.findall(whole) for word in _QUOTED.findall(_plain(named))):
        found[word if word[0] in "/~" else f"./{word}"] = None
    for text, sign, literal, bare in _STRING.findall(whole):
        if sign or bare:
            key = text or bare
            continue
        called = "exec(" in (text or literal)  # by mise, in a template for a variable
        if called or _RUN.fullmatch(key.lower()) or (key.isupper() and loads_something(key)):
            text = _HOME.sub("~", text.replace("\\n", " ").replace("\\", "") or literal)
            text = _VARIABLE.sub(".", text)
            words = (text, *SIGNS.split(_INNER.sub("", text)), *_QUOTED.findall(text))
            found.update(dict.fromkeys(words))
    return tuple(word for word in found if 0 < len(word) < 4096 and word.isprintable())[:_MAX_WORDS]


def _plain(text: str) -> str:
    """Return the text of a shell with paths as they are without variables and quotes."""
    return _INNER.sub("", _VARIABLE.sub(".", _HOME.sub("~", text)))


@functools.lru_cache(100)
def _on_path(root: str, path: str) -> tuple[str, ...]:
    folders = (os.path.abspath(each or ".") for each in path.split(os.pathsep))
    return tuple(dict.fromkeys(each for each in folders if beneath(each, root) and each != root))


def _files(words: Iterable[str], bases: list[str], root: str) -> Iterator[str]:
    """Yield the paths in a root that words mean, seen from these folders and from those that they name, and programs of
    their names in folders of PATH there."""
    for folder in _on_path(root, os.environ.get("PATH", "")):
        yield from (f"{folder}/{word}" for word in words if _PROGRAM.fullmatch(word))
    for base in bases:  # it grows
        for word in words:
            path = path_in(base, word) if "/" in word or word[0] in ".~" else f"{base}/{word}"
            if path == root or not beneath(path, root):
                continue
            there = os.path.lexists(path)
            if there and word not in _OF_TOOLS and os.path.isdir(path):
                bases += [path] if path not in bases and len(bases) < _MAX_FOLDERS else []
            elif word.endswith(_PLACE):
                yield from [path] if os.access(path, os.X_OK) else []
            elif there or (" " not in word and (word[:2] in ("./", "~/") or word.endswith(SCRIPTS))):
                yield path
