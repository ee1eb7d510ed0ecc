"""Code given to interpreters: evident harm is found, nothing is taken for harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.shell.inline_code import MAX_CODE, effects_of_code
from toolcrib.policy.shell.table.readers import sed_effects


def kinds(language: str, text: str) -> set[str]:
    return {effect.kind for effect in effects_of_code(language, text)}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("import os; os.system('x')", "shell"),
        ("from os import system as s; s('x')", "shell"),
        ("import subprocess as p; p.run(['rm', '-rf', '/'])", "shell"),
        ("__import__('os').system('x')", "shell"),
        ("c = 'rm -rf /'\nimport os\nos.system(c)", "shell"),
        ("import os; getattr(os, 'system')('x')", "shell"),
        ("import shutil; shutil.rmtree('/')", "delete"),
        ("from pathlib import Path; Path('/etc/x').unlink()", "delete"),
        ("from pathlib import Path; (Path.home() / 'x').unlink()", "delete"),
        ("open('/etc/x', 'w')", "write"),
        ("open('/etc/x')", "read"),
        ("import pty; pty.spawn('/bin/sh')", "spawn-shell"),
        ("import os; os.kill(-1, 9)", "kill-all"),
        ("import os\nwhile True: os.fork()", "bomb"),
        ("import urllib.request", "network"),
        ("def f(:\n os.system('x')", "shell"),
        ("exec(__import__('base64').b64decode('eA=='))", "hidden-code"),
        ("import urllib.request as u; exec(u.urlopen('http://x').read())", "remote-code"),
    ],
)
def test_python(text: str, kind: str) -> None:
    assert kind in kinds("python", text)


def test_python_that_does_nothing_evident() -> None:
    assert kinds("python", "import json; print(json.dumps({'a': 1}))") == set()


@pytest.mark.parametrize(
    ("language", "text", "kind"),
    [
        ("node", "require('fs').rmSync('/')", "delete"),
        ("node", "require('child_process').execSync('x')", "shell"),
        ("perl", "system('x')", "shell"),
        ("perl", "unlink '/etc/x'", "delete"),
        ("perl", "exec '/bin/sh'", "spawn-shell"),
        ("ruby", "`x`", "shell"),
        ("php", "unlink('/etc/x');", "delete"),
        ("lua", "os.execute('x')", "shell"),
        ("awk", 'BEGIN { system("x") }', "shell"),
        ("awk", '"x" | getline', "shell"),
        ("awk", "{ print($1) > f }", "change"),
        ("awk", "{ print | cmd }", "execute"),
        ("awk", "/a|b/ {print}", "execute"),
        ("awk", '{print "a\\\n" > "x"}', "execute"),
        ("awk", '/"/ {print > "x"} /"/', "change"),
        ("awk", 'BEGIN { getline x < "/etc/x" }', "read"),
    ],
)
def test_other_languages(language: str, text: str, kind: str) -> None:
    assert kind in kinds(language, text)


@pytest.mark.parametrize(
    "text",
    ["$3 > 100 {print $1}", "/a b/ {print $1/2}", "{ if ($1 > 5 && ($2 > 3)) print }", '{print "a > b | c"}', "a || b"],
)
def test_harmless_awk(text: str) -> None:
    assert kinds("awk", text) == set()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("s/a/b/g", set()),
        ("/x/,$d;p", set()),
        ("1,10p", set()),
        ("s|a|b|;y/ab/cd/", set()),
        ("$!{h;d}", set()),
        ("a\\\ntext; w no", {"unknown", "write"}),
        ("w out", {"write", "unknown"}),
        ("r in", {"read", "unknown"}),
        ("1e rm x", {"shell", "unknown"}),
        ("s/a/b/e", {"shell", "unknown"}),
        ("s/a/b/w out", {"write", "unknown"}),
        ("/x/{s/a/b/;e id\n}", {"shell", "unknown"}),
        ("s/[/]e/x/", {"unknown"}),
        ("k", {"unknown"}),
    ],
)
def test_sed_scripts(script: str, expected: set[str]) -> None:
    found = {effect.kind for effect in sed_effects(script)}
    assert found >= expected
    assert bool(found) == bool(expected)


@given(st.sampled_from(["python", "node", "perl", "ruby", "php", "lua", "awk"]), st.text(max_size=200))
def test_never_raises(language: str, text: str) -> None:
    effects_of_code(language, text)


def test_long_code_is_not_looked_through() -> None:
    assert kinds("python", "#" * (MAX_CODE + 1)) == {"execute"}
