"""Find the hosts that a command line names and would reach, and whether it does nothing but fetch from them.

A person's yes opens these hosts, and no others, in the command's own proxy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...boundary.network.host_names import place_of
from ...boundary.network.url import parse_url
from ...core.dataclass import dataclass
from ...core.errors import AddressRefused
from ...core.text import lazy_regex
from ...core.verdict import Judgement
from .effects import effects_of
from .inline_code import effects_of_code
from .judge import judgements
from .parts import Command, CommandPlace, Effect, Script, Word
from .planted import planted_program
from .reading import read_script, shifting
from .repository import remote_of
from .table.wordlist import words

MAX_HOSTS = 10
"""Hosts in one question: a person must be able to read them."""

_PYPI = ("pypi.org:443", "files.pythonhosted.org:443")
_NPM = ("registry.npmjs.org:443",)
_CRATES = ("index.crates.io:443", "static.crates.io:443")
_REGISTRIES = {
    **dict.fromkeys(words("pip pip3 pipx uv uvx poetry pdm pipenv hatch"), _PYPI),
    **dict.fromkeys(words("npm npx pnpm pnpx bun bunx cnpm"), _NPM),
    "yarn": ("registry.yarnpkg.com:443",),
    "cargo": _CRATES,
    "gem": ("rubygems.org:443", "index.rubygems.org:443"),
    "go": ("proxy.golang.org:443", "sum.golang.org:443"),
}
# Options of programs that fetch, with which they send nothing but the address and headers that the line shows, read no
# file, and take no other way. A group of letters is a group of flags.
_CURL = lazy_regex(
    r"-[sSfLOIJvigkRN#46]+|-[sSfLOIJvigkRN#46]*o|--(?:silent|show-error|fail|location|remote-name|head|verbose|include"
    r"|globoff|compressed|progress-bar|no-progress-meter|fail-with-body|output|write-out|max-time|connect-timeout"
    r"|retry|retry-delay|http1\.1|http2|create-dirs|user-agent|max-redirs)|-[wmA]"
)
_WGET = lazy_regex(r"-[qvcSN46]+|-[qvcSN46]*[OPtT]|--(?:quiet|no-verbose|continue|spider|timeout|tries)|-nv|-nc|-nd")
_FETCHERS = {"curl": _CURL, "wget": _WGET}
# What the rest of a line may be judged to do, where a sandbox confines it to the workspace.
_BESIDES = frozenset({"shell:create", "shell:write"})


@dataclass(frozen=True, slots=True)
class Reached:
    """The hosts that a command line would reach, each as `host:port`. `only`: it fetches from them, and otherwise
    reads and prints, or writes files in the workspace. `unnamed`: it reaches others, too, that cannot be told."""

    hosts: tuple[str, ...] = ()
    only: bool = False
    unnamed: bool = False


def reached(command: str, place: CommandPlace) -> Reached:
    """Return the hosts that a command line would reach. Looks up no name."""
    script = read_script(command, place.cwd, place.home)
    found: dict[str, None] = {}
    unnamed = False
    for part in script.commands:
        for effect in _network(part):
            hosts = _hosts_of(part, effect, place)
            unnamed = unnamed or not hosts
            found.update(dict.fromkeys(hosts))
    hosts = tuple(found)[:MAX_HOSTS]
    unnamed = unnamed or len(found) > MAX_HOSTS
    return Reached(hosts, bool(hosts) and not unnamed and _only_fetches(script, place), unnamed)


# --- hosts


def _network(command: Command) -> Iterator[Effect]:
    for effect in effects_of(command):
        if effect.kind in ("network", "fetch-and-run") or (effect.kind == "install" and effect.target is None):
            yield effect
        elif effect.code is not None:
            yield from (each for each in effects_of_code(*effect.code) if each.kind == "network" and each.target)


def _hosts_of(command: Command, effect: Effect, place: CommandPlace) -> tuple[str, ...]:
    name = command.program or ""
    target = effect.target
    text = _known(target) if isinstance(target, Word) else target
    if effect.kind != "network" or (text is None and target is None and name in _REGISTRIES):
        own_index = any("://" in word.start or word.text is None for word in command.args)
        return () if own_index else _REGISTRIES.get(name, ())
    if name == "git" and (text is None or "://" not in text):
        if target is not None and text is None:
            return ()
        text = remote_of(command, text or "origin", place) if place.on_disk else None
    if text is None:
        return ()
    if "://" not in text and name in _FETCHERS:
        text = f"http://{text}"
    try:
        to = parse_url(text)
    except AddressRefused:
        return ()
    return (place_of(str(to.host), to.port),)


def _known(word: Word) -> str | None:
    """Return a word as far as its host is concerned: `?` in an address is a pattern for the shell."""
    return word.parts[0] if word.glob and not word.many and len(word.parts) == 1 else word.text


# --- does it only fetch?


def _only_fetches(script: Script, place: CommandPlace) -> bool:
    if script.problems or shifting(script) or not place.contained:
        return False
    if any(found.verdict != "ask" or not _answered(found) for found in judgements(script, place, 0)):
        return False
    return all(_is_fetch(each, place) if each.program in _FETCHERS else _is_plain(each) for each in script.commands)


def _answered(found: Judgement) -> bool:
    return found.rule == "shell:network" or (found.rule in _BESIDES and found.unknown)


def _is_plain(command: Command) -> bool:
    """Return whether a command prints, filters or writes: one that reads files would do so without the wall that hides
    secrets from commands that only read."""
    return not command.assigns and {effect.kind for effect in effects_of(command)} <= {"write", "create"}


def _is_fetch(command: Command, place: CommandPlace) -> bool:
    """Return whether a command sends nothing but what its line shows: no file, no input, no known-only-then word."""
    if command.assigns or command.via or command.stdin is not None:
        return False
    if planted_program(command, place) or any(each.op in ("<", "<<", "<<<", "<>", "<&") for each in command.redirects):
        return False
    texts = [word.text for word in command.args]
    return None not in texts and _sends_nothing(_FETCHERS[command.program or ""], (text or "" for text in texts))


def _sends_nothing(known: re.Pattern[str], texts: Iterable[str]) -> bool:
    for text in texts:
        name, _, value = text.partition("=")
        if text.startswith("-") and not known.fullmatch(name):
            return False
        # `-w @file` prints a file, and `%output{…}` writes one
        if text.startswith("@") or (name.startswith("-") and value.startswith("@")) or "%output" in text:
            return False
    return True
