"""The files that programs look for by fixed names, so that no word of a command line names them.

A row counts if all words of its key are in the command, also within the text of `bash -c`. Of a program without a row
those count that have its name (`.foorc`, `foo.toml`, `.config/foo`).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from ..core.text import lazy_regex
from .programs import is_shim, named_programs

SIGNS = lazy_regex(r"[\s:;&|()<>\"'=`{},]+")  # between the words of a text
DOCKERFILE = "Dockerfile"
MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_COMPOSE = tuple(
    f"{name}{more}.{end}"
    for name in ("compose", "docker-compose")
    for more in ("", ".override")
    for end in ("yaml", "yml")
)
_DENO = ("deno.json", "deno.jsonc")
_MISE = ("mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml")
_COMPOSED = (*_COMPOSE, ".env", DOCKERFILE)
_GEMS = ("Gemfile", "Gemfile.lock", "gems.rb", ".bundle")
_GRADLE = (
    "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties", "gradle",
    "buildSrc", "init.gradle",
)  # fmt: skip
_MAVEN = ("pom.xml", ".mvn")
_PNPM = (".npmrc", "package.json", ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpm-workspace.yaml", "node_modules")
_TASKFILES = tuple(
    f"{name}{more}.{end}" for name in ("Taskfile", "taskfile") for more in ("", ".dist") for end in ("yml", "yaml")
)
_PROCFILES = ("Procfile", ".env")
_WEB_SETTINGS = tuple(f"{name}.config.{end}" for name in ("vite", "next") for end in ("js", "mjs", "cjs", "ts", "mts"))
_CLOJURE = ("deps.edn", "bb.edn", "project.clj", "profiles.clj")
_INVOKE = ("tasks.py", "tasks", "invoke.yaml", "invoke.py")
_JUPYTER = tuple(
    f"jupyter{name}_config.{end}" for name in ("", "_server", "_lab", "_notebook") for end in ("py", "json")
)
_DOTNET = (
    "global.json", "NuGet.config", "NuGet.Config", "nuget.config", "Directory.Build.props", "Directory.Build.targets",
    "dotnet-tools.json", ".config/dotnet-tools.json",
)  # fmt: skip
_YARN = (".pnp.cjs", ".pnp.loader.mjs", ".yarn/releases", ".yarn/plugins")
_NODE_SETTINGS = ("node.config.json",)
_LOOKED_FOR: Mapping[str, tuple[str, ...]] = {
    "uv": ("pyproject.toml", "uv.toml", "uv.lock", ".python-version", ".python-versions", ".venv"),
    "poetry": ("pyproject.toml", "poetry.toml", "poetry.lock", ".venv"), "fastmcp": ("fastmcp.json",),
    "npx": (".npmrc",), "npm": (".npmrc", "package.json", "node_modules"),
    "pnpm": _PNPM, "pnpx": _PNPM, "--run": ("package.json", "node_modules"),
    "yarn": (".yarnrc.yml", ".yarnrc", "package.json", *_YARN, "node_modules"),
    "bun": ("bunfig.toml", "package.json", "tsconfig.json", "jsconfig.json", "node_modules"),
    "bunx": ("bunfig.toml", ".npmrc"),
    "tsx": ("tsconfig.json",), "ts-node": ("tsconfig.json",), "ts-node-dev": ("tsconfig.json",),
    "node .": ("package.json", "index.js"),
    "--experimental-default-config-file": _NODE_SETTINGS, "--experimental-config-file": _NODE_SETTINGS,
    "deno": (*_DENO, "deno.lock", "import_map.json", "package.json"),
    "cargo": ("Cargo.toml", "Cargo.lock", "build.rs", "src", ".cargo", "rust-toolchain", "rust-toolchain.toml"),
    "go run": ("go.mod", "go.sum", "go.work"), "ruby": _GEMS, "bundle": _GEMS,
    "make": MAKEFILES, "gmake": MAKEFILES, "just": (*_JUSTFILES, ".env"),
    "mvn": _MAVEN, "mvnw": _MAVEN, "gradle": _GRADLE, "gradlew": _GRADLE, "ant": ("build.xml",),
    "sbt": ("build.sbt", "project", ".sbtopts", ".jvmopts"),
    "lein": _CLOJURE, "clojure": _CLOJURE, "clj": _CLOJURE, "bb": _CLOJURE,
    "dotnet": _DOTNET, "dnx": _DOTNET, "rake": ("Rakefile", "rakefile", *_GEMS), "mix": ("mix.exs", "config"),
    "pdm": ("pyproject.toml", "pdm.toml", ".pdm-python", ".venv"), "hatch": ("pyproject.toml", "hatch.toml"),
    "pipenv": ("Pipfile", "Pipfile.lock", ".env", ".venv"), "rye": ("pyproject.toml", ".venv"),
    "flask": ("app.py", "wsgi.py", ".flaskenv", ".env"),
    "fastapi": ("main.py", "app.py", "api.py", "app", "pyproject.toml"),
    "gunicorn": ("gunicorn.conf.py",), "celery": ("celeryconfig.py",), "langgraph": ("langgraph.json", ".env"),
    "jupyter": _JUPYTER, "invoke": _INVOKE, "inv": _INVOKE,
    "nox": ("noxfile.py",), "tox": ("tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"), "doit": ("dodo.py",),
    "scons": ("SConstruct",), "ansible-playbook": ("ansible.cfg",),
    "vite": _WEB_SETTINGS, "next": _WEB_SETTINGS, "wrangler": ("wrangler.toml", "wrangler.json", "wrangler.jsonc"),
    "nodemon": ("nodemon.json", "package.json"), "pm2": ("ecosystem.config.js",),
    "turbo": ("turbo.json", "package.json"),
    "nx": ("nx.json", "project.json", "package.json"), "composer": ("composer.json", "vendor"),
    "task": _TASKFILES, "foreman": _PROCFILES, "honcho": _PROCFILES, "overmind": _PROCFILES, "hivemind": _PROCFILES,
    "process-compose": ("process-compose.yaml", "process-compose.yml"), "ninja": ("build.ninja",),
    "mage": ("magefile.go", "magefiles"), "go tool": ("go.mod", "go.sum", "go.work"),
    "zig build": ("build.zig", "build.zig.zon"),
    "stack": ("stack.yaml", "package.yaml"), "cabal": ("cabal.project",), "dune": ("dune-project", "dune"),
    "rebar3": ("rebar.config",), "dart": ("pubspec.yaml",),
    "bazel": ("WORKSPACE", "MODULE.bazel", ".bazelrc", "tools/bazel"),
    "nix-shell": ("shell.nix", "default.nix"), "devbox": ("devbox.json",), "devenv": ("devenv.nix", "devenv.yaml"),
    "bake": ("docker-bake.hcl", "docker-bake.json"), "vagrant": ("Vagrantfile",), "tilt": ("Tiltfile",),
    "pixi": ("pixi.toml", "pyproject.toml", ".pixi"), "swift run": ("Package.swift",),
    "nix": ("flake.nix", "flake.lock"), "mise": (*_MISE, ".tool-versions"),
    "compose": _COMPOSED, "docker-compose": _COMPOSED, "podman-compose": _COMPOSED,
    "docker build": (DOCKERFILE,), "podman build": (DOCKERFILE, "Containerfile"),
}  # fmt: skip
_UV = (".cache/uv", ".local/share/uv", ".config/uv")
_BUN = (".bun", ".bunfig.toml", ".npmrc")
_NPM = (".npm/_npx", ".npm/_cacache", ".npmrc")
_PNPM_STORES = (".cache/pnpm", ".local/share/pnpm", ".config/pnpm", ".npmrc")
_NUGET = (".nuget", ".dotnet")
_MAVEN_HOMES = (".m2", ".mavenrc")
_GEM_HOMES = (".gem", ".local/share/gem")
_OF_HOME: Mapping[str, tuple[str, ...]] = {
    "npx": _NPM, "npm": _NPM, "uv": _UV, "uvx": _UV, "bun": _BUN, "bunx": _BUN,
    "pipx": (".local/share/pipx", ".local/pipx", ".cache/pipx", ".cache/pip", ".config/pip", ".pip"),
    "pnpm": _PNPM_STORES, "pnpx": _PNPM_STORES, "yarn": (".yarn", ".cache/yarn", ".yarnrc", ".yarnrc.yml", ".npmrc"),
    "deno": (".cache/deno",), "go": ("go/pkg", ".cache/go-build", ".config/go"), "cargo": (".cargo", ".rustup"),
    "mvn": _MAVEN_HOMES, "mvnw": _MAVEN_HOMES, "gradle": (".gradle",), "gradlew": (".gradle",), "jbang": (".jbang",),
    "sbt": (".sbt", ".ivy2", ".cache/coursier"), "lein": (".lein", ".m2"), "clojure": (".clojure", ".m2", ".gitlibs"),
    "dotnet": _NUGET, "dnx": _NUGET, "bundle": (".bundle", *_GEM_HOMES), "ruby": _GEM_HOMES, "julia": (".julia",),
    "node": (".node_modules", ".node_libraries"), "Rscript": ("R",),
    **{f"python{version}": (".local/lib",) for version in ("", "3", *(f"3.{minor}" for minor in range(6, 20)))},
    "gh": (".config/gh", ".local/share/gh"), "kubectl": (".kube", ".krew"), "aws": (".aws",), "az": (".azure",),
    "gcloud": (".config/gcloud",), "vault": (".vault",), "pass": (".password-store", ".gnupg"), "gpg": (".gnupg",),
    "psql": (".psqlrc",), "sqlite3": (".sqliterc",), "mysql": (".my.cnf",), "mariadb": (".my.cnf",),
    "curl": (".curlrc", ".config/curlrc"), "wget": (".wgetrc",), "mail": (".mailrc",), "mailx": (".mailrc",),
    "mutt": (".muttrc", ".mutt", ".config/mutt"), "msmtp": (".msmtprc", ".config/msmtp"),
}  # fmt: skip
"""Where launchers and interpreters keep the packages that they run, and where other programs have settings that name
programs, below a home directory."""
WITH_COMMANDS = frozenset({
    "package.json", "fastmcp.json", "bunfig.toml", "Procfile", "devbox.json", "process-compose.yaml", "langgraph.json",
    *MAKEFILES, *_JUSTFILES, *_COMPOSE, *_DENO, *_MISE, *_TASKFILES,
})  # fmt: skip
"""Those that name the scripts that a launcher runs."""
INSTALLED = frozenset({".venv", "node_modules"})
"""Those with packages, which are too many for the fingerprint."""
NOT_ABOVE = frozenset({"src", "build.rs", DOCKERFILE, "Containerfile"})
"""Those that lie next to a launcher's own file; the others are looked for in the folders above, too."""
_VERSIONS = (
    ".tool-versions", *_MISE, ".mise/config.toml", "mise/config.toml", ".config/mise.toml", ".config/mise/config.toml",
    ".python-version", ".ruby-version", ".node-version", ".nvmrc", ".go-version", ".java-version", ".lua-version",
)  # fmt: skip
"""By these a version manager (asdf, mise, pyenv, rbenv …) chooses what its shims run; some can name a folder."""
_MAX_NAMES = 20
_STARTS_ANOTHER = frozenset({
    "sh", "bash", "zsh", "dash", "ksh", "fish", "env", "nohup", "timeout", "nice", "ionice", "setsid", "stdbuf", "sudo",
    "time", "xargs",
})  # fmt: skip
_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx", "run", "exec", "dlx", "x"})  # before the name of another
_OWN_PLACES = ("{0}.*", ".{0}", ".{0}.*", "{0}rc", ".{0}rc*", "{0}file", "{1}file", ".config/{0}", ".config/{0}.*")
# `.gitignore` and `.dockerignore` are edited often; what git runs is protected by `git_settings.py`.
_WITHOUT_OWN = _STARTS_ANOTHER | {"git", "docker", "podman"}
_RUNS_PACKAGES = frozenset({"npx", "bunx", "pnpx"})
_RUNS_FILES = frozenset({"pipx"})  # a file of the name of the package comes first
_PROGRAM = lazy_regex(r"[A-Za-z][\w-]{2,99}")
_PACKAGE = lazy_regex(r"((?:@[\w.-]+/)?[A-Za-z][\w.-]*)(?:@.*)?")


def looked_for_by(words: Sequence[str]) -> frozenset[str]:
    """Return the names of files that the launchers in a command look for."""
    texts = _texts(words)
    rows = _rows(_LOOKED_FOR, texts)
    return frozenset(name for names in (*rows, _packages(texts), _chosen_by(texts)) for name in names)


def named_after(words: Sequence[str]) -> frozenset[str]:
    """Return names, some with a star, of the files that would belong to the programs in a command that have no row."""
    texts, first = _texts(words), os.path.basename(words[0])
    another = (text for text in dict.fromkeys(texts) if first in _STARTS_ANOTHER and next(named_programs(text), None))
    names = {first, *_operands(texts, _RUNNERS), *itertools.islice(another, _MAX_NAMES)}
    names = {name.rpartition("/")[2] for name in names}
    known = _WITHOUT_OWN.union(*(key.split() for key in (*_LOOKED_FOR, *_OF_HOME)))
    own = (name for name in names - known if _PROGRAM.fullmatch(name))
    return frozenset(place.format(name, name.capitalize()) for name in own for place in _OWN_PLACES)


def kept_in_home_by(words: Sequence[str]) -> list[str]:
    """Return where, below the home directory, the programs in a command keep what they run."""
    return [os.path.expanduser(f"~/{name}") for names in _rows(_OF_HOME, _texts(words)) for name in names]


def _texts(words: Sequence[str]) -> list[str]:
    return [text for word in words if len(word) <= 65_536 for text in SIGNS.split(word)]


def _rows(table: Mapping[str, tuple[str, ...]], texts: Sequence[str]) -> list[tuple[str, ...]]:
    there = {re.sub(r"(?<=.)@.*", "", os.path.basename(text)) for text in texts}
    return [names for key, names in table.items() if there.issuperset(key.split())]


def _chosen_by(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the files by which it is chosen what runs, if a program in a command is a shim."""
    for text in list(dict.fromkeys(filter(None, texts)))[:_MAX_NAMES]:
        if is_shim(next(named_programs(text), "")):
            return _VERSIONS
    return ()


def _packages(texts: Sequence[str]) -> Iterator[str]:
    """Yield where the package is whose program `npx` and the like run, if it is installed here, and the file that
    `pipx run` takes for it."""
    for name in _operands(texts, _RUNS_PACKAGES):
        yield from (f"node_modules/{name}", f"node_modules/.bin/{name.rpartition('/')[2]}")
    yield from _operands(texts, _RUNS_FILES)


def _operands(texts: Sequence[str], programs: frozenset[str]) -> list[str]:
    at = next((number for number, text in enumerate(texts, 1) if os.path.basename(text) in programs), len(texts))
    operands = [found[1] for text in texts[at:] if text != "run" and (found := _PACKAGE.fullmatch(text))]
    return operands[:2]  # the second may be the program, after --package or --spec
