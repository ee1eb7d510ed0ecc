"""The gateway in front of servers on the official SDK: the conformance suite, and every field that a client sees.

Both are run for each way in which the gateway may reach a server: over stdio or HTTP, with a server that speaks both
protocol eras or only one; so what passes between a client of one era and a server of the other is translated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import gateway_probes_odd
import gateway_probes_plain
from conformance_suite import REQUIRED, Checks, complaints, ran
from gateway_probes import ODD, PLAIN, observed
from gateway_processes import fixture, gateway, over_stdio

assert gateway_probes_plain and gateway_probes_odd  # they fill PLAIN and ODD

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROBES = {"plain": PLAIN, "odd": ODD}
ERAS = ("legacy", "2026-07-28")
NAME = "fixture"
# Not scored, but what a gateway could lose: schemas with every keyword, arguments in headers, sessions that end.
EXTRA = {
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12"],
    "2026-07-28": ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"],
}


@dataclass(frozen=True)
class Way:
    """How the gateway reaches the server behind it."""

    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.transport}-{self.era}"

    def handshake(self, era: str) -> bool:
        """Whether gateway and server speak with a handshake: as the client does, where the server can do both."""
        return self.era == "handshake" or (self.era == "both" and era == "legacy")

    def translated(self, era: str) -> bool:
        """Whether the client speaks another era than the server."""
        return self.handshake(era) != (era == "legacy")


WAYS = [
    Way("stdio", "both"), Way("stdio", "handshake"),
    Way("http", "both"), Way("http", "handshake"), Way("http", "modern"),
]  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """`start(kind, way)`: a gateway in front of a fixture server, kept until all tests are done. `use` makes it another
    one: what the suite leaves behind is not seen by others."""
    running: dict[tuple[str, Way, str], str] = {}
    with ExitStack() as stack:

        def started(kind: str, way: Way, use: str = "look") -> str:
            if (kind, way, use) not in running:
                if way.transport == "http":
                    server = {"url": stack.enter_context(fixture(kind, way.era))}
                else:
                    server = over_stdio(kind, way.era)
                folder = tmp_path_factory.mktemp(f"{kind}-{way}-{use}")
                running[kind, way, use] = stack.enter_context(gateway(folder, {NAME: server}))
            return running[kind, way, use]

        yield started


# --- the official suite


@pytest.fixture(scope="module")
def outcomes(
    start: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Way | None, str], Checks]:
    """`outcomes(way, revision)`: what the suite says through the gateway; of the fixture itself for None."""
    known: dict[tuple[Way | None, str], Checks] = {}

    def of(way: Way | None, revision: str) -> Checks:
        if (way, revision) not in known:
            folder = tmp_path_factory.mktemp(f"suite-{way}-{revision}")
            if way is not None:
                known[way, revision] = ran(start("plain", way, "suite"), revision, folder)
            else:
                with fixture("plain") as url:
                    known[way, revision] = ran(url, revision, folder)
        return known[way, revision]

    return of


# What a server that asks with a handshake cannot give a client without one: its questions have no keys of their own
# and come one after the other.
UNKEYED = {
    "sep-2322-elicitation-incomplete", "sep-2322-ignore-unexpected-params", "sep-2322-multiple-inputs-incomplete",
}  # fmt: skip


SCENARIOS = [(revision, name) for lists in (REQUIRED, EXTRA) for revision, names in lists.items() for name in names]


@pytest.mark.parametrize(("revision", "scenario"), SCENARIOS)
@pytest.mark.parametrize("way", [None, *WAYS], ids=str)
def test_scenario(outcomes: Callable[..., Checks], way: Way | None, revision: str, scenario: str) -> None:
    checks = outcomes(way, revision).get(scenario)
    assert checks, "it was not run"
    bad = complaints(checks)
    if way is not None and way.era == "handshake" and revision == "2026-07-28":
        bad = [check for check in bad if check["id"] not in UNKEYED]
        if way.transport == "stdio":  # the suite waits less for its log than an open question may hold others up
            bad = [check for check in bad if check["id"] != "sep-2575-server-no-log-without-loglevel"]
    assert not bad, json.dumps(bad, indent=1)[:5000]
    assert any(check["status"] == "SUCCESS" for check in checks)


# --- our own look: what a client sees through the gateway is what it sees without


@pytest.fixture(scope="module")
def direct() -> Callable[[str, str], dict[str, Any]]:
    """`direct(kind, era)`: what a client sees of a fixture server by itself."""
    known: dict[tuple[str, str], dict[str, Any]] = {}

    def of(kind: str, era: str) -> dict[str, Any]:
        if (kind, era) not in known:
            with fixture(kind) as url:
                known[kind, era] = observed(url, era, PROBES[kind])
        return known[kind, era]

    return of


@pytest.fixture(scope="module")
def through(start: Callable[..., str]) -> Callable[[str, Way, str], dict[str, Any]]:
    """`through(kind, way, era)`: what the same client sees of it through the gateway."""
    known: dict[tuple[str, Way, str], dict[str, Any]] = {}

    def of(kind: str, way: Way, era: str) -> dict[str, Any]:
        if (kind, way, era) not in known:
            known[kind, way, era] = observed(start(kind, way), era, PROBES[kind])
        return known[kind, way, era]

    return of


@dataclass(frozen=True)
class Allowed:
    """A difference that is meant: why, where, and how both are made alike before they are compared."""

    why: str
    where: Callable[[str, Way, str], bool]
    alike: Callable[[Any, bool], Any]
    """Gets what was seen, and whether it was seen through the gateway."""


def _everywhere(probe: str, way: Way, era: str) -> bool:
    return True


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same with every dict and text in it changed, innermost first."""
    if isinstance(value, dict):
        return change({key: _changed(each, change) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return [_changed(each, change) for each in value]
    return change(value)


def _without_lead(found: Any) -> Any:
    return found.replace(f"The MCP server {NAME} asks: ", "") if isinstance(found, str) else found


def _without_own_meta(found: Any) -> Any:
    if not isinstance(found, dict) or "_meta" not in found:
        return found
    meta = {key: value for key, value in found["_meta"].items() if key not in ("ifc", "toolcrib/error")}
    rest = {key: value for key, value in found.items() if key != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


def _without_hint(found: Any) -> Any:
    hint = "[Analyze the error above and try a different approach.]"
    if isinstance(found, dict) and isinstance(found.get("content"), list):
        return {**found, "content": [each for each in found["content"] if each.get("text") != hint]}
    return found.removesuffix(f"\n\n{hint}") if isinstance(found, str) else found


def _only(change: Callable[[Any], Any]) -> Callable[[Any, bool], Any]:
    """For what was seen through the gateway only."""
    return lambda seen, gateway: _changed(seen, change) if gateway else seen


def _hinted(tool: Any) -> str | None:
    return tool.get("annotations", {}).get("title")


def _by_name(seen: Any, gateway: bool) -> Any:
    return sorted(seen, key=lambda tool: tool["name"])


def _name_and_schema(found: Any) -> Any:
    is_tool = isinstance(found, dict) and "inputSchema" in found
    return {key: found[key] for key in ("name", "inputSchema")} if is_tool else found


def _without_ids(seen: Any) -> Any:
    answers, heard = seen
    forms = [what for kind, what in heard if kind == "elicitation"]
    return [answers, [{key: value for key, value in form.items() if key != "elicitationId"} for form in forms]]


ALLOWED = [
    Allowed("whoever is asked has to know which server asks", _everywhere, _only(_without_lead)),
    Allowed("results carry labels, and failed ones the stage that ended them", _everywhere, _only(_without_own_meta)),
    Allowed("the model is told what to do about an error", _everywhere, _only(_without_hint)),
    Allowed(
        "a name that no server lists is refused by the gateway itself, in the words of the protocol",
        lambda probe, *_: probe == "a_prompt_that_is_not_there",
        lambda seen, gateway: seen["code"],
    ),
    Allowed("tools are sorted, so that prompt caches hold", lambda probe, *_: probe == "tools", _by_name),
    Allowed(
        "the id of a visit exists in the handshake era only: a newer server has none, its end is not announced",
        lambda probe, way, era: probe == "an_address_to_visit" and way.translated(era),
        lambda seen, gateway: _without_ids(seen),
    ),
    Allowed(
        "who cannot be asked has not agreed: the server hears `cancel`, not an error",
        lambda probe, *_: probe == "a_client_without_abilities",
        lambda seen, gateway: [each["failed"] for each in seen[:2]],
    ),
    Allowed(
        "with a handshake a server hears once what its clients can do; those behind a gateway differ",
        lambda probe, way, era: probe == "a_client_without_abilities" and way.handshake(era),
        lambda seen, gateway: seen[1:],
    ),
    Allowed(
        "over stdio a log names no call: while several clients have calls running, it goes to none of them",
        lambda probe, way, _: probe == "two_clients_at_once" and way.transport == "stdio",
        lambda seen, gateway: [[answers, [each for each in heard if each[0] != "log"]] for answers, heard in seen],
    ),
    Allowed(
        "a tool without a title of its own is called by that of its annotations",
        lambda probe, *_: probe == "tools",
        lambda seen, gateway: [{**tool, "title": tool.get("title", _hinted(tool))} for tool in seen],
    ),
    Allowed(
        "what a server says of a tool that came later is shown when a person has accepted it",
        lambda probe, *_: probe == "changing tool",
        lambda seen, gateway: _changed(seen, _name_and_schema),
    ),
]
# A server that is spoken to in another era answers this otherwise by itself, and its answer is passed on.
ANOTHER_ANSWER = {
    "call door_first": {True: -32042, False: None},
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(("kind", "probe"), [(kind, probe) for kind, probes in PROBES.items() for probe in probes])
def test_a_client_sees_the_same(
    direct: Callable[..., Any], through: Callable[..., Any], kind: str, probe: str, way: Way, era: str
) -> None:
    expected, seen = direct(kind, era)[probe], through(kind, way, era)[probe]
    assert "the probe failed" not in expected, expected
    assert "the probe failed" not in seen, seen["the probe failed"]
    if probe in ANOTHER_ANSWER and way.translated(era):
        assert seen.get("code") == ANOTHER_ANSWER[probe][way.handshake(era)]
        return
    for each in ALLOWED:
        if each.where(probe, way, era):
            expected, seen = each.alike(expected, False), each.alike(seen, True)
    if probe == "tools":
        names = {tool["name"] for tool in expected}
        seen = [tool for tool in seen if tool["name"] in names]  # beside those of the gateway itself
    assert _plain(seen) == _plain(expected)


def _plain(value: Any) -> Any:
    """Tuples and lists alike, as JSON has them."""
    return json.loads(json.dumps(value))
