"""Define, as data, the verdict for each kind of effect that is not judged by the place of its target."""

from __future__ import annotations

from typing import NamedTuple

from ...core.verdict import Verdict


class Kind(NamedTuple):
    """A verdict, the end of the sentence "`command` …", and whether a sandbox makes asking unnecessary."""

    verdict: Verdict
    phrase: str
    unknown: bool = False


RULE_FETCH = "shell:fetch"
"""The rule of a question that is about hosts alone: the command only fetches from them."""

PATH_KINDS = {
    "read": "reads", "list": "lists", "send": "sends", "write": "writes to", "create": "makes", "delete": "deletes",
    "move": "moves", "modify": "changes the rights of", "link": "links to",
}  # fmt: skip
"""Kinds that are judged by the place of their target, each with its verb."""

KINDS: dict[str, Kind] = {
    # unknown effects, or effects that stay inside: a sandbox contains them
    "unknown": Kind("ask", "is not known: its effects cannot be known before it runs", True),
    "execute": Kind("ask", "runs code that cannot be judged beforehand", True),
    "change": Kind("ask", "changes files in the workspace", True),
    "named": Kind("ask", "reads the files that another file names", True),
    "environment": Kind("ask", "shows settings that can hold passwords", True),
    "check": Kind("ask", "runs with the workspace's own settings, which can name code", True),
    "session": Kind("ask", "changes how the rest of the command line runs", True),
    "serve": Kind("ask", "serves files to the network"),
    "editor": Kind("ask", "opens an editor on the desktop"),
    "fetch-and-run": Kind("ask", "fetches a program from the network and runs it"),
    # a person is asked even in a sandbox
    "discard": Kind("ask", "throws work away"),
    "protected": Kind("ask", "changes settings that other programs follow"),
    "network": Kind("ask", "reaches the network"),
    "install": Kind("ask", "installs or removes packages"),
    "privilege": Kind("ask", "asks for other privileges"),
    "process": Kind("ask", "acts on other processes"),
    "container": Kind("ask", "talks to the container daemon"),
    "desktop": Kind("ask", "acts on the desktop session"),
    # known harm
    "system": Kind("deny", "changes the system"),
    "person": Kind("deny", "answers for the person, or changes what a person decided; only a person can do that"),
    "power": Kind("deny", "turns the machine off or restarts it"),
    "kernel": Kind("deny", "changes the kernel's settings or modules"),
    "mount": Kind("deny", "changes what is mounted"),
    "namespace": Kind("deny", "leaves or replaces the surroundings it runs in"),
    "device": Kind("deny", "acts on a device"),
    "service": Kind("deny", "controls services of the system"),
    "persist": Kind("deny", "makes something run again later"),
    "hijack": Kind("deny", "makes another program run something in its place"),
    "users": Kind("deny", "changes users or their rights"),
    "firewall": Kind("deny", "changes the network's configuration"),
    "log": Kind("deny", "tampers with logs or history"),
    "escape": Kind("deny", "escapes from a container or sandbox"),
    "reverse-shell": Kind("deny", "gives a shell to somebody else"),
    "spawn-shell": Kind("deny", "starts a shell from inside another program"),
    "remote-code": Kind("deny", "runs code that comes from the network"),
    "hidden-code": Kind("deny", "runs code that was hidden by an encoding"),
    "exfiltration": Kind("deny", "sends the environment or files from outside the workspace to another machine"),
    "secret": Kind("deny", "reads or prints secrets"),
    "metadata": Kind("deny", "reaches the cloud's metadata service, which hands out credentials"),
    "kill-all": Kind("deny", "ends processes that it does not own"),
    "setuid": Kind("deny", "makes a file run with its owner's rights"),
    "bomb": Kind("deny", "exhausts the machine"),
}
