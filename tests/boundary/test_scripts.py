"""What a command of the settings loads in a workspace, as far as it can be known, and its fingerprint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolcrib.boundary import scripts
from toolcrib.boundary.scripts import fingerprint, loaded_by
from toolcrib.policy.starts import DeclaredStart, Starts


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")


def relative(ws: Path, words: Sequence[str]) -> list[str]:
    return sorted(os.path.relpath(path, ws) for path in fingerprint(loaded_by(words, ws, [ws])))


@pytest.fixture(autouse=True)
def no_shims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["python", "tools/server.py"], ["tools/helper.py", "tools/server.py", "tools/sub/x.so"]),
        (["./notify.sh", "now"], ["notify.sh"]),
        (["tools/..//./notify.sh"], ["notify.sh"]),
        (["sh", "-c", "$PWD/notify.sh"], ["notify.sh"]),
        (["notify.sh"], []),  # looked up on PATH
        (["python", "-m", "pack.main"], ["pack/__init__.py", "pack/main.py"]),
        (["python", "-m", "pack"], ["pack/__init__.py", "pack/main.py"]),
        (["node", "--require=./hook.js", "-e", "1"], ["hook.js"]),
        (["sh", "-c", "exit"], []),
        (["cat", "/etc/passwd"], []),
        (["npx", "-y", "@scope/some@1.2"], [".npmrc", "node_modules/.bin/some", "node_modules/@scope/some"]),
        (
            ["uv", "run", "tools/sub/x.so"],
            [".python-version", ".python-versions", "pyproject.toml", "tools/sub/x.so", "uv.lock", "uv.toml"],
        ),
    ],
)
def test_what_is_named_and_what_lies_beside_it(tmp_path: Path, words: list[str], found: list[str]) -> None:
    fill(tmp_path, "tools/server.py", "tools/helper.py", "tools/sub/x.so", "tools/__pycache__/x.pyc", "notify.sh")
    fill(tmp_path, "pack/__init__.py", "pack/main.py", "hook.js", "src/app.py")
    assert relative(tmp_path, words) == found


def test_a_script_in_the_top_folder_brings_what_it_imports(tmp_path: Path) -> None:
    fill(tmp_path, "server.py", "helper.py", "deep.py", "pack/a.py", "pack/b.py", "unrelated.py", "src/app.py")
    (tmp_path / "server.py").write_text("import json, helper as h\nfrom pack.a import x\nfrom . import deep\n")
    (tmp_path / "helper.py").write_text("def f():\n    from deep import y\n")
    found = relative(tmp_path, ["python", "server.py"])
    assert {"server.py", "helper.py", "deep.py", "pack/a.py", "pack/b.py"} <= set(found)
    assert "json.py" in found  # it would take the place of Python's own
    assert "unrelated.py" not in found and "src/app.py" not in found
    (tmp_path / "main.mjs").write_text("import {x} from './lib/x.js'\nconst y = require('./y')\n")
    fill(tmp_path, "lib/x.js", "y.js", "z.js")
    found = relative(tmp_path, ["node", "main.mjs"])
    assert {"main.mjs", "lib/x.js", "y", "y.js"} == set(found)  # `y` would be taken before `y.js`


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sh", "-c", "cd sub && python3 sub/server.py --port=80"], ["sub/server.py", "sub/helper.py"]),
        (["./start.sh"], ["start.sh", "part.sh", "lib/inner.sh", "sub/server.py", "sub/helper.py"]),
        (["scripts/run"], ["scripts/run", "scripts/other", "top.py", "late.py", "optional.py"]),
        (["node", "dist/index.js"], ["dist/index.js", "shared/x.js", "typed.ts"]),
        (["npm", "start"], ["package.json", "dist/index.js", "shared/x.js"]),
        (["scripts/up"], ["scripts/up", "sub/server.py", "sub/helper.py"]),
        (["./go.sh"], ["go.sh", "sub/server.py", "scripts/other.sh", "part.sh"]),
        (["cargo", "run"], ["Cargo.toml", "src/app.py", "build.rs"]),
        (["make", "serve"], ["Makefile", "sub/server.py", "sub/helper.py"]),
        (["make", "-f", "mk/rules", "serve"], ["mk/rules", "mk/more.mk", "part.sh", "sub/server.py"]),
        (["make", "-C", "sub"], ["sub/Makefile", "part.sh"]),
        (["npm", "--prefix", "sub", "start"], ["sub/package.json", "part.sh"]),
        (["bash", "-c", "exec ~+/sub/server.py"], ["sub/server.py", "sub/helper.py"]),
        (["sh", "-c", "cd /; python3 $OLDPWD/sub/server.py"], ["sub/server.py", "sub/helper.py"]),
        (["sh", "-c", 'python3 "${PWD%/}/sub/server.py"'], ["sub/server.py", "sub/helper.py"]),
        (["sh", "-c", 'sh "$(git rev-parse --show-toplevel)"/part.sh'], ["part.sh"]),
        (["java", "@sub/options"], ["sub/options"]),
        (["/usr/bin/x", "RUBYOPT=-r./sub/server.py"], ["sub/server.py"]),
        (["docker", "compose", "up"], ["compose.yaml", "docker-compose.override.yml", ".env"]),
        (["docker", "compose", "up"], ["Dockerfile", "image/Dockerfile", "image/own.docker", "volume.txt", "part.sh"]),
        (["docker", "compose", "-f", "image/extra.yml", "up"], ["image/.env", "image/Dockerfile"]),
        (["sh", "-c", "docker build -t x . && docker run -i x"], ["Dockerfile"]),
        (
            ["cargo", "run", "--manifest-path", "rs/Cargo.toml"],
            ["rs/build.rs", "rs/src/main.rs", ".cargo", "src/app.py"],
        ),
        (["uvicorn", "pack.app:app"], ["pack/app.py", "pack/other.py", "late.py"]),
        (["gunicorn", "-w", "2", "top:make()"], ["top.py", "late.py"]),
        (["uv", "run", "flask", "--app=pack.deep.app", "run"], ["pack/__init__.py", "pack/deep/app.py"]),
        (["sh", "-c", "exec hypercorn pack.deep.app:app"], ["pack/__init__.py", "pack/deep/app.py"]),
        (["fastmcp", "run", "sub/server.py:mcp"], ["sub/server.py", "sub/helper.py"]),
        (["fastmcp", "run"], ["fastmcp.json", "sub/server.py", "sub/helper.py"]),
        (["fastmcp", "run", "conf/server.json"], ["conf/server.json", "sub/server.py", "conf/beside.py"]),
        (["just", "serve"], ["justfile", ".env"]),
        (["yarn", "start"], [".yarn/releases", ".yarn/plugins", "dist/index.js"]),
        (["deno", "run", "srv/deep/s.ts"], ["import_map.json", "deno.json", "srv/deno.json", "part.sh"]),
        (["npx", "tsx@4", "srv/deep/s.ts"], ["tsconfig.json", "srv/tsconfig.json", "node_modules/.bin/tsx"]),
        (["node", "--import", "tsx", "srv/deep/s.ts"], ["tsconfig.json"]),
        (["node", "--experimental-default-config-file", "srv/deep/s.ts"], ["node.config.json"]),
        (["bash", "-lc", "exec npm start"], ["package.json", "dist/index.js"]),
        (["ruby", "sub/s.rb"], ["Gemfile", ".bundle"]),
        (["go", "run", "./cmd"], ["go.mod", "go.work"]),
        (["python3", "-m", "elsewhere", "PYTHONPATH=/nowhere:sub:later"], ["sub/helper.py", "later"]),
        (["python3", "top.py"], ["top.py", "late.py", "optional.py", "second.py"]),
    ],
)
def test_what_a_command_names_further_inside(tmp_path: Path, words: list[str], found: list[str]) -> None:
    """The text of `bash -c`, a shell script, package.json and a variable name files, too; imports may be anywhere."""
    fill(tmp_path, "sub/server.py", "sub/helper.py", "part.sh", "scripts/other", "late.py", "shared/x.js", "typed.ts")
    fill(tmp_path, "unrelated.py", "data.json", "src/app.py")
    for name, text in {
        "start.sh": ". ./part.sh\nexec bash lib/inner.sh < data.json\n",
        "lib/inner.sh": "./start.sh\npython3 sub/server.py\n",
        "scripts/run": '#!/usr/bin/env bash\npython3 "top.py"\n',
        "scripts/up": "#!/bin/sh\nexec python3 ../sub/server.py\n",
        "top.py": "try: import optional\nexcept ImportError: pass\ndef f():\n    import late; import second\n",
        "dist/index.js": 'require("../shared/x"); import("../typed.js")',
        "package.json": '{"scripts": {"start": "node dist/index.js"}}',
        "Makefile": "serve:\n\tpython3 sub/server.py\n",
        "go.sh": 'here="$(dirname "$0")"\n. $here/scripts/other.sh; "$(pwd)/part.sh"; exec "${here%/}"/sub/server.py\n',
        "scripts/other.sh": "",
        "mk/rules": "include mk/more.mk\nserve:\n\tsh part.sh\n",
        "mk/more.mk": "more:\n\tpython3 sub/server.py\n",
        "sub/Makefile": "all:\n\tsh ../part.sh\n",
        "sub/package.json": '{"scripts": {"start": "sh ../part.sh"}}',
        "sub/options": "-cp sub",
        "compose.yaml": "services: {a: {build: {context: ./image, dockerfile: own.docker}}}\n"
        "volumes: ['./volume.txt:/volume.txt:ro', './part.sh:/part.sh']\n",
        "image/own.docker": "FROM scratch\n",
        "image/extra.yml": "",
        "volume.txt": "",
        "rs/Cargo.toml": "",
        "rs/src/main.rs": "",
        "pack/__init__.py": "",
        "pack/app.py": "import late\n",
        "pack/other.py": "",
        "pack/deep/app.py": "",
        "fastmcp.json": '{"source": {"path": "sub/server.py"}}',
        "conf/server.json": '{"source": "sub/server.py:mcp", "more": "beside.py"}',
        "conf/beside.py": "",
        "deno.json": '{"tasks": {"start": "sh part.sh"}}',
        "srv/deep/s.ts": "",
    }.items():
        fill(tmp_path, name)
        (tmp_path / name).write_text(text)
    assert set(found) <= set(names := relative(tmp_path, words))
    assert not {"unrelated.py", "data.json", "src/app.py"}.difference(found).intersection(names)


def test_what_the_manifest_of_an_archive_names_counts(tmp_path: Path) -> None:
    """Java loads it, and what the manifests of those name, whether it is there or not."""
    long = f"lib/{'x' * 80}.jar"
    for name, classes in {"build/s.jar": f"lib/a%20b.jar {long} ../../out.jar", "build/lib/a b.jar": "c/"}.items():
        fill(tmp_path, name)
        lines = f"Manifest-Version: 1.0\r\nClass-Path: {classes}"
        folded = "\r\n ".join(lines[at : at + 70] for at in range(0, len(lines), 70))
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", f"{folded}\r\n")
    found = relative(tmp_path, ["java", "-jar", "build/s.jar"])
    assert found == sorted(["build/s.jar", "build/lib/a b.jar", f"build/{long}", "build/lib/c"])
    (tmp_path / "build/s.jar").write_bytes(b"PK no archive")
    assert relative(tmp_path, ["java", "-jar", "build/s.jar"]) == ["build/s.jar"]


def test_a_shim_brings_the_files_that_choose_what_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "home/.asdf/shims/node"
    fill(tmp_path, "home/.asdf/shims/node", "home/bin/mise", "ws/.tool-versions")
    shim.chmod(0o755)
    (tmp_path / "home/bin/mise").chmod(0o755)
    (tmp_path / "home/bin/npm").symlink_to("mise")
    monkeypatch.setenv("PATH", f"{shim.parent}:{tmp_path}/home/bin")
    for words in (["node", "-v"], ["sh", "-c", "exec node -v"], ["npm", "-v"], ["env", "node"]):
        found = fingerprint(loaded_by(words, tmp_path / "ws", [tmp_path / "ws"]))
        assert {f"{tmp_path}/ws/.tool-versions", f"{tmp_path}/ws/mise.toml"} <= set(found), words


def test_what_the_first_line_of_a_script_and_other_shells_name_counts(tmp_path: Path) -> None:
    fill(tmp_path, "bunfig.toml", "more.fish", "Main.class", "x.lua")
    assert relative(tmp_path, ["java", "Main"]) == ["Main", "Main.class"]
    assert "x.lua" in relative(tmp_path, ["lua", "-l", "x", "/opt/s.lua"])
    for name, text in (("s.ts", "#!/usr/bin/env bun\n"), ("s.fish", "source ./more.fish\n")):
        (tmp_path / name).write_text(text)
    assert {"bunfig.toml", "s.ts"} <= set(relative(tmp_path, ["./s.ts"]))
    assert relative(tmp_path, ["fish", "s.fish"]) == ["more.fish", "s.fish"]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["npx", "-y", "srv"], {".npm/_npx", ".npm/_cacache", ".npmrc"}),
        (["sh", "-c", "exec uvx srv@1"], {".cache/uv", ".local/share/uv", ".config/uv"}),
        (["python3.12", "-m", "srv"], {".local/lib"}),
        (["cat"], set[str]()),
    ],
)
def test_what_programs_keep_below_a_home_directory_is_protected_and_not_in_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], kept: set[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    fill(tmp_path, ".npm/_npx/1/srv.js", ".cache/uv/a/srv.py")
    found = loaded_by(words, tmp_path, [tmp_path])
    assert {os.path.relpath(path, tmp_path) for path in found.kept} == kept
    assert not any("srv" in path for path in fingerprint(found) if "node_modules" not in path)
    assert loaded_by(words, tmp_path / "project", [tmp_path / "project"]).kept == ()


def test_a_launcher_looks_in_the_folders_above(tmp_path: Path) -> None:
    fill(tmp_path, "rs/deep/Cargo.toml", "src/app.py")
    found = fingerprint(loaded_by(["cargo", "run"], tmp_path / "rs/deep", [tmp_path]))
    names = {os.path.relpath(path, tmp_path) for path in found}
    assert {"rs/deep/src", "rs/.cargo", ".cargo", "Cargo.toml"} <= names
    assert "src/app.py" not in names and not any(name.startswith("..") for name in names)


@pytest.mark.parametrize(
    "words",
    [
        ["docker", "run", "-i", "postgres:latest"],
        ["server", "--url=http://app:main/x", "--lang", "go", "v1.2:x"],
        ["python3", "sub/server.py", "notes.other"],
    ],
)
def test_what_only_looks_like_a_module_or_a_launcher(tmp_path: Path, words: list[str]) -> None:
    fill(tmp_path, "sub/server.py", "app.py", "Dockerfile", "other.py")
    loaded = loaded_by(words, tmp_path, [tmp_path])
    assert not loaded.modules
    assert {os.path.relpath(path, tmp_path) for path in loaded.hashed} <= {"sub", "sub/server.py"}


def test_the_packages_of_node_are_protected_and_not_in_the_fingerprint(tmp_path: Path) -> None:
    fill(tmp_path, "dist/index.js", "node_modules/a/index.js")
    words = ("node", "dist/index.js")
    assert "node_modules/a/index.js" not in relative(tmp_path, words)
    files = Starts([tmp_path]).host_files([DeclaredStart("the server", words, tmp_path, "x")])
    for name in ("node_modules/a/index.js", "dist/node_modules/a/index.js"):  # the nearest is taken first
        assert any(each.is_touched_by(str(tmp_path / name)) for each in files), name


@pytest.mark.parametrize("words", [["python", "server.py"], ["python", "-m", "helper"]])
def test_what_python_would_load_instead_counts(tmp_path: Path, words: list[str]) -> None:
    """A package and an extension module come before the module of the same name."""
    fill(tmp_path, "server.py", "helper.py")
    (tmp_path / "server.py").write_text("import helper\n")
    first = fingerprint(loaded_by(words, tmp_path, [tmp_path]))
    files = Starts([tmp_path]).host_files([DeclaredStart("the server", tuple(words), tmp_path, "x")])
    for name in ("helper/__init__.py", "helper.so", "helper.abi3.so", "helper.cpython-399-x86_64-linux-gnu.so"):
        assert any(each.is_touched_by(str(tmp_path / name)) for each in files), name
        fill(tmp_path, name)
        assert fingerprint(loaded_by(words, tmp_path, [tmp_path])) != first, name
        (tmp_path / name).unlink()
    compiled = str(tmp_path / "__pycache__/helper.cpython-399.pyc")
    assert any(each.is_touched_by(compiled) for each in files)  # Python need not compare it with the source
    assert not any(each.is_touched_by(str(tmp_path / "other/x.so")) for each in files)


def test_every_change_shows(tmp_path: Path) -> None:
    fill(tmp_path, "tools/server.py", "tools/a.py")
    loaded = loaded_by(["python", "tools/server.py"], tmp_path, [tmp_path])
    first = fingerprint(loaded)
    assert fingerprint(loaded) == first
    seen = [first]
    (tmp_path / "tools" / "a.py").write_text("# other\n")
    seen.append(fingerprint(loaded))
    (tmp_path / "tools" / "new.py").write_text("")
    seen.append(fingerprint(loaded))
    (tmp_path / "tools" / "server.py").chmod(0o755)
    seen.append(fingerprint(loaded))
    (tmp_path / "tools" / "a.py").unlink()
    seen.append(fingerprint(loaded))
    (tmp_path / "tools" / "server.py").unlink()
    (tmp_path / "tools" / "server.py").symlink_to("/dev/null")
    seen.append(fingerprint(loaded))
    assert len({str(each) for each in seen}) == len(seen)


def test_an_environment_is_kept_as_a_whole(tmp_path: Path) -> None:
    fill(tmp_path, "venv/pyvenv.cfg", "venv/bin/python", "venv/lib/x.py")
    loaded = loaded_by(["venv/bin/python", "-c", "1"], tmp_path, [tmp_path])
    assert loaded.kept == (str(tmp_path / "venv"),)
    assert loaded.hashed == ()
    fill(tmp_path, "Makefile")
    (tmp_path / "Makefile").write_text("all:\n\tvenv/bin/python -c 1\n")
    (tmp_path / "venv/bin/python").chmod(0o755)
    loaded = loaded_by(["make"], tmp_path, [tmp_path])
    assert loaded.kept == (str(tmp_path / "venv"),)
    assert not [path for path in loaded.hashed if "venv" in path]


def test_a_link_out_of_the_workspace_and_into_it(tmp_path: Path) -> None:
    ws, outside = tmp_path / "ws", tmp_path / "outside"
    fill(ws, "tools/server.py")
    fill(outside, "other.py")
    (ws / "link.py").symlink_to(outside / "other.py")
    (outside / "back.py").symlink_to(ws / "tools" / "server.py")
    assert str(ws / "link.py") in loaded_by(["python", "link.py"], ws, [ws]).hashed
    assert str(ws / "tools" / "server.py") in loaded_by(["python", str(outside / "back.py")], ws, [ws]).hashed


def test_what_links_next_to_a_script_lead_to_is_loaded_too(tmp_path: Path) -> None:
    fill(tmp_path, "tools/server.py", "src/lib.py", "src/pack/a.py", "more/b.py", "src/other.py")
    for link, target in {"tools/lib.py": "src/lib.py", "tools/pack": "src/pack", "src/pack/more": "more"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    (tmp_path / "tools/all").symlink_to("..")
    loaded = loaded_by(["python", "tools/server.py"], tmp_path, [tmp_path])
    behind = {str(tmp_path / name) for name in ("src/lib.py", "src/pack", "more")}
    assert set(loaded.hashed) == behind | {str(tmp_path / name) for name in ("tools", "tools/server.py")}
    assert f"{tmp_path}/more/b.py" in fingerprint(loaded)


RUN = "open('ran', 'w').close()\n"
RUN_JS = "require('fs').writeFileSync('ran', '')\n"
RUN_SH = "#!/bin/sh\ntouch ran\n"
RUN_MAKE = "$(shell touch ran)\n"
PLANTED = [
    # (the command, its variables, the files of the project, the file that a tool writes, and its text)
    (["python3", "server.py"], {}, {"server.py": "import html.parser\n"}, "_markupbase.py", RUN),  # that imports it
    (["python3", "server.py"], {}, {"server.py": "import html.parser\n"}, "_markupbase/__init__.py", RUN),
    (["python3", "server.py"], {}, {"server.py": "import pack.a\n", "pack/a.py": "import late\n"}, "late.py", RUN),
    (["python3", "-m", "pack.server"], {}, {"pack/server.py": "import late\n"}, "late.py", RUN),
    (["python3", "-m", "pack.server"], {}, {"pack/server.py": "import json\n"}, "json.py", RUN),
    (["python3", "-m", "pack.server"], {}, {"pack/server.py": "import html.parser\n"}, "_markupbase.py", RUN),
    (["python3", "-um", "pack"], {}, {"pack/__main__.py": "import html.parser\n"}, "html.py", RUN),
    (["python3", "-m", "runpy", "pack.server"], {}, {"pack/server.py": ""}, "pack/server.py", RUN),
    (["python3", "-c", "import mine; mine"], {}, {"mine.py": ""}, "mine.py", RUN),
    (["python3", "-c", "import mine"], {}, {"mine.py": "import late\n", "late.py": ""}, "late.py", RUN),
    (["python3", "-c", "exec(open('sub/s.py').read())"], {}, {"sub/s.py": ""}, "sub/s.py", RUN),
    (["python3", "."], {}, {"__main__.py": "import json\n"}, "json.py", RUN),
    (["python3", "."], {}, {"__main__.py": ""}, "__main__.py", RUN),
    (["python3", "sub/s.py"], {"PYTHONPATH": "."}, {"sub/s.py": "import json\n"}, "json.py", RUN),
    (["sh", "-c", "exec python3 -m pack"], {}, {"pack/__main__.py": "import json\n"}, "json.py", RUN),
    (["sh", "-c", 'python3 "$PWD/sub/s.py"'], {}, {"sub/s.py": ""}, "sub/s.py", RUN),
    (["sh", "-c", "python3 sub/serv*.py"], {}, {"sub/server.py": ""}, "sub/server.py", RUN),
    (["sh", "-c", "python3 sub/serv*.py"], {}, {"sub/server.py": ""}, "sub/serv.py", RUN),
    (["bash", "-c", "python3 ./{sub,}/s.py"], {}, {"sub/s.py": ""}, "sub/s.py", RUN),
    (["sh", "-c", "mine"], {"PATH": "sub:/usr/bin:/bin"}, {"sub/mine": "#!/bin/sh\n"}, "sub/mine", RUN_SH),
    (["perl", "-Ilib", "-e", "use Foo"], {}, {"lib/Foo.pm": "1;"}, "lib/Foo.pm", "system('touch ran'); 1;"),
    (["node", "sub/server"], {}, {"sub/server.js": ""}, "sub/server.js", RUN_JS),
    (["node", "server"], {}, {"server.js": ""}, "server", RUN_JS),
    (["node", "sub/s.mjs"], {}, {"sub/s.mjs": "import 'foo'", "mine.cjs": RUN_JS}, "package.json",
     '{"name": "foo", "exports": "./mine.cjs"}'),
    (["node", "s.mjs"], {}, {"s.mjs": "import '#in'", "package.json": '{"imports": {"#in": "./in.cjs"}}', "in.cjs": ""},
     "in.cjs", RUN_JS),
    (["sh", "-c", "exec make -s"], {}, {"Makefile": "all:\n\t@true\n"}, "GNUmakefile", RUN_MAKE + "all:\n"),
    (["python3", "-mpack.server"], {}, {"pack/server.py": "import html.parser\n"}, "_markupbase.py", RUN),
    (["python3", "-mpack"], {}, {"pack/__main__.py": "import json\n"}, "json.py", RUN),
    (["python3", "sub/s.py"], {"PYTHONPATH": "later"}, {"sub/s.py": "import new\n"}, "later/new.py", RUN),
    (["python3", "-m", "a.b.c"], {}, {"a/b/c.py": "", "a/__init__.py": ""}, "a/__init__.py", RUN),
    (["cargo", "run", "-q", "--offline", "--manifest-path", "rs/Cargo.toml"], {"HOME": os.environ.get("HOME", "")},
     {"rs/Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\n', "rs/src/main.rs": "fn main() {}"},
     "rs/build.rs", 'fn main() { std::fs::write("../ran", "").unwrap(); }\n'),
    (["env", "./s"], {}, {"s": "#!/usr/bin/env python3\nimport helper\n", "helper.py": ""}, "helper.py", RUN),
    (["sh", "s.sh"], {}, {"s.sh": ". ./.env\n", ".env": ""}, ".env", RUN_SH),
    (["sh", "s.sh"], {}, {"s.sh": "exec target/s\n", "target/s": "\x7fELF"}, "target/s", RUN_SH),
    (["sh", "s.sh"], {}, {"s.sh": "cd sub; ./s\n", "sub/s": ""}, "sub/s", "#!/bin/sh\ntouch ../ran\n"),
    (["sh", "s.sh"], {}, {"s.sh": "exec python3 -um pack.a\n", "pack/a.py": ""}, "pack/a.py", RUN),
    (["sh", "s.sh"], {}, {"s.sh": "python3 -m pack\n", "pack/__main__.py": "import json"}, "json.py", RUN),
    (["sh", "s.sh"], {}, {"s.sh": "node dist\n", "dist/index.js": ""}, "dist/index.js", RUN_JS),
    (["sh", "s.sh"], {}, {"s.sh": "make -s\n", "Makefile": "all:\n"}, "Makefile", f"all:\n\t{RUN_MAKE}"),
    (["npm", "start"], {}, {"package.json": '{"scripts": {"start": "node dist/s"}}', "dist/s.js": ""}, "dist/s.js",
     RUN_JS),
    (["make", "-s"], {}, {"Makefile": "all:\n\t@target/s\n", "target/s": "\x7fELF"}, "target/s", RUN_SH),
    (["perl", "bin/s.pl"], {}, {"bin/s.pl": 'use lib "$FindBin::Bin/../lib"; use FindBin; use lib "lib"; use Foo;',
                                "lib/Foo.pm": "1;"}, "lib/Foo.pm", "system('touch ran'); 1;"),
    (["perl", "s.pl"], {}, {"s.pl": "do './conf';", "conf": "1;"}, "conf", "system('touch ran');"),
    (["node", "."], {}, {"package.json": '{"main": "lib/i.js"}', "lib/i.js": ""}, "lib/i.js", RUN_JS),
    (["node", "bin/s.js"], {}, {"bin/s.js": "require('..')", "index.js": ""}, "index.js", RUN_JS),
    (["node", "bin/s.js"], {}, {"bin/s.js": "require('../')", "package.json": '{"main": "lib/m"}', "lib/m.js": ""},
     "lib/m.js", RUN_JS),
    (["node", "s.js"], {}, {"s.js": "import(`./a.js?x`)", "a.js": ""}, "a.js", RUN_JS),
    (["node", "s.js"], {}, {"s.js": "require('child_process').fork('./a.js')", "a.js": ""}, "a.js", RUN_JS),
    (["node", "s.js"], {}, {"s.js": "require(__dirname + '/a')", "a.js": ""}, "a.js", RUN_JS),
    (["python3", "s.py"], {}, {"s.py": "import os, \\\n  mine\n", "mine.py": ""}, "mine.py", RUN),
    (["python3", "s.py"], {}, {"s.py": "__import__('mine')", "mine.py": ""}, "mine.py", RUN),
    (["python3", "sub/s.py"], {}, {"sub/s.py": "import sys; sys.path[:0] = ['src']\nimport mine", "src/mine.py": ""},
     "src/mine.py", RUN),
    (["make", "-s"], {}, {"Makefile": "-include local.mk\nall:\n\t@true\n"}, "local.mk", RUN_MAKE),
    (["make", "-s"], {}, {"Makefile": "include a.mk\nall:\n\t@true\n", "a.mk": "-include b.mk"}, "b.mk", RUN_MAKE),
]  # fmt: skip


@pytest.mark.parametrize(("words", "variables", "files", "plant", "text"), PLANTED)
def test_what_a_start_really_loads_is_protected(
    tmp_path: Path, words: list[str], variables: dict[str, str], files: dict[str, str], plant: str, text: str
) -> None:
    """The command itself says what it loads: it is run with the planted file."""
    # not the interpreter of an environment: the files of that import modules first
    path = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    if shutil.which(words[0], path=path) is None:
        pytest.skip(f"no {words[0]}")
    for name, content in files.items():
        fill(tmp_path, name)
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    start = DeclaredStart("it", tuple(words), tmp_path, "x", tuple(f"{k}={v}" for k, v in variables.items()))
    starts = Starts([tmp_path], tmp_path.parent / f"{tmp_path.name}-store")
    starts.check(start)
    protected = starts.host_files([start])
    fill(tmp_path, plant)
    (tmp_path / plant).write_text(text)
    (tmp_path / plant).chmod(0o755)
    subprocess.run(words, cwd=tmp_path, env={"PATH": path, **variables}, check=False, timeout=60, capture_output=True)
    assert (tmp_path / "ran").exists()
    assert any(each.is_touched_by(str(tmp_path / plant)) for each in protected)
    doubt = starts.doubt(start)
    assert doubt is not None and plant in doubt.text


def test_what_a_script_for_a_shell_says_starts_nothing(tmp_path: Path) -> None:
    fill(tmp_path, "Makefile", "mod.py")
    (tmp_path / "s.sh").write_text("# make it: python3 -m mod\necho try make, python3 -m mod; true\n")
    assert loaded_by(["sh", "s.sh"], tmp_path, [tmp_path]).modules == ()
    assert f"{tmp_path}/Makefile" not in loaded_by(["sh", "s.sh"], tmp_path, [tmp_path]).hashed


def test_what_was_not_there_at_the_first_start_is_a_change(tmp_path: Path) -> None:
    start = DeclaredStart("it", ("node", "dist"), tmp_path, "x")
    starts = Starts([tmp_path], tmp_path.parent / f"{tmp_path.name}-store")
    starts.check(start)
    fill(tmp_path, "dist/index.js")
    doubt = starts.doubt(start)
    assert doubt is not None and "dist/index.js (new)" in doubt.text


def test_what_has_the_name_of_the_program_is_protected_and_not_in_the_fingerprint(tmp_path: Path) -> None:
    start = DeclaredStart("it", ("/opt/foo", "serve"), tmp_path / "sub")
    fill(tmp_path, ".foo/settings", "sub/foo.toml", "sub/food.txt", "foo")
    starts = Starts([tmp_path], tmp_path.parent / "starts")
    files = starts.host_files([start])
    for name in (".foo/settings", ".foo/new", "sub/foo.toml", "sub/.foorc", "Foofile", ".config/foo/a", "sub/foo.js"):
        assert any(each.is_touched_by(str(tmp_path / name)) for each in files), name
    for name in ("sub/food.txt", "foo", "sub/other.toml", ".foo_cache/a", "sub/.foocache"):
        assert not any(each.is_touched_by(str(tmp_path / name)) for each in files), name
    starts.check(start)
    fill(tmp_path, ".foo/settings", "sub/foo.log")
    assert starts.doubt(start) is None


def test_a_module_that_no_start_loads_may_change(tmp_path: Path) -> None:
    fill(tmp_path, "server.py", "other.py", "tests/__init__.py", "sub/x.py")
    start = DeclaredStart("it", ("python3", "server.py"), tmp_path, "x")
    files = Starts([tmp_path]).host_files([start])
    for name in ("other.py", "tests/__init__.py", "tests/new.py", "sub/new.py", "notes.txt"):
        assert not any(each.is_touched_by(str(tmp_path / name)) for each in files), name
    for name in ("new.py", "new/__init__.py", "sub/__init__.py", "new.abi3.so", "new.pyc"):
        assert any(each.is_touched_by(str(tmp_path / name)) for each in files), name
    folder = Starts([tmp_path]).host_files([DeclaredStart("it", ("python3", "sub/x.py"), tmp_path, "x")])
    assert not any(each.is_touched_by(str(tmp_path / "new.py")) for each in folder)


def test_a_link_to_a_folder_is_a_module_too(tmp_path: Path) -> None:
    """What it leads to may be written later, under the folder's own name."""
    fill(tmp_path, "server.py", "sub/x.txt")
    old = tmp_path / "old"
    old.symlink_to("sub")
    files = Starts([tmp_path]).host_files([DeclaredStart("it", ("python3", "server.py"), tmp_path, "x")])
    for target in ("sub", "nowhere"):
        link = tmp_path / "anyio"
        link.symlink_to(target)
        assert str(link) in [path for each in files if each.many for path in each.there()]
        link.unlink()
    assert str(old) not in [path for each in files if each.many for path in each.there()]


@pytest.mark.parametrize("words", [["sh", "s.sh"], ["make"], ["npm", "start"], ["python3", "s.py"]])
def test_a_text_that_is_none_is_no_error(tmp_path: Path, words: list[str]) -> None:
    for name in ("s.sh", "Makefile", "package.json", "s.py"):
        (tmp_path / name).write_bytes(b"cd ~\0/../x\n. ~\0\ninclude ~\0\nimport a\0\npython3 \xff/../~" + b"x" * 5000)
    assert (
        str(tmp_path / words[-1].replace("start", "package.json").replace("make", "Makefile"))
        in loaded_by(words, tmp_path, [tmp_path]).hashed
    )


WAYS = "make,npm test,./{0},sh {0},python {0},node {0},java -jar {0}"


@pytest.mark.parametrize("kind", ["pipe", "vast"])
def test_a_pipe_is_not_waited_for_and_a_vast_file_not_read(tmp_path: Path, kind: str) -> None:
    names = ("Makefile", "package.json", "run.sh", "run", "x.jar", "m.js", "m.py")
    for name in names:
        if kind == "pipe":
            os.mkfifo(tmp_path / name)
        else:
            (tmp_path / name).touch()
            os.truncate(tmp_path / name, 1 << 40)
    ways = list(dict.fromkeys(way.format(name) for name in names for way in WAYS.split(",")))
    code = """import sys
from toolcrib.boundary.scripts import fingerprint, loaded_by
for way in sys.argv[2:]:
    fingerprint(loaded_by(way.split(), sys.argv[1], [sys.argv[1]]))"""
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *ways[:: 1 if kind == "pipe" else 4]], check=True, timeout=120
    )


def test_of_many_large_files_only_some_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty blocks cost a command nothing: 2,000 files of 4 MiB took 42 s for each question."""
    monkeypatch.setattr(scripts, "MAX_TOTAL", 10)
    for name in "abc":
        (tmp_path / "data" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_bytes(bytes(8))
    found = fingerprint(loaded_by(["python3", "data"], tmp_path, [tmp_path]))
    assert [":" in state for _, state in sorted(found.items())] == [False, False, True]
