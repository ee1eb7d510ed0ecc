"""The files that launchers look for by fixed names, so that no word of a command line names them.

A row counts if all words of its key are in the command, also within the text of `bash -c`.
"""

from __future__ import annotations

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
_GRADLE = ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties")
_DOTNET = ("global.json", "NuGet.config", "Directory.Build.props", "Directory.Build.targets")
_YARN = (".pnp.cjs", ".pnp.loader.mjs", ".yarn/releases", ".yarn/plugins")
_NODE_SETTINGS = ("node.config.json",)
_LOOKED_FOR: Mapping[str, tuple[str, ...]] = {
    "uv": ("pyproject.toml", "uv.toml", "uv.lock", ".python-version", ".python-versions", ".venv"),
    "poetry": ("pyproject.toml", "poetry.toml", "poetry.lock", ".venv"), "fastmcp": ("fastmcp.json",),
    "npx": (".npmrc",), "npm": (".npmrc", "package.json", "node_modules"),
    "pnpm": (".npmrc", "package.json", ".pnpmfile.cjs", "pnpm-workspace.yaml", "node_modules"),
    "yarn": (".yarnrc.yml", ".yarnrc", "package.json", *_YARN, "node_modules"),
    "bun": ("bunfig.toml", "package.json", "tsconfig.json", "jsconfig.json", "node_modules"),
    "bunx": ("bunfig.toml", ".npmrc"),
    "tsx": ("tsconfig.json",), "ts-node": ("tsconfig.json",), "node .": ("package.json", "index.js"),
    "--experimental-default-config-file": _NODE_SETTINGS, "--experimental-config-file": _NODE_SETTINGS,
    "deno": (*_DENO, "deno.lock", "import_map.json", "package.json"),
    "cargo": ("Cargo.toml", "Cargo.lock", "build.rs", "src", ".cargo", "rust-toolchain", "rust-toolchain.toml"),
    "go run": ("go.mod", "go.sum", "go.work"), "ruby": _GEMS, "bundle": _GEMS,
    "make": MAKEFILES, "gmake": MAKEFILES, "just": (*_JUSTFILES, ".env"),
    "mvn": ("pom.xml", ".mvn"), "gradle": _GRADLE, "sbt": ("build.sbt", "project", ".sbtopts", ".jvmopts"),
    "dotnet run": _DOTNET, "rake": ("Rakefile", "rakefile", *_GEMS), "mix": ("mix.exs", "config"),
    "pdm": ("pyproject.toml", "pdm.toml", ".pdm-python", ".venv"), "hatch": ("pyproject.toml", "hatch.toml"),
    "pixi": ("pixi.toml", "pyproject.toml", ".pixi"), "swift run": ("Package.swift",),
    "nix": ("flake.nix", "flake.lock"), "mise": (*_MISE, ".tool-versions"),
    "compose": _COMPOSED, "docker-compose": _COMPOSED, "podman-compose": _COMPOSED,
    "docker build": (DOCKERFILE,), "podman build": (DOCKERFILE, "Containerfile"),
}  # fmt: skip
WITH_COMMANDS = frozenset({
    "package.json", "fastmcp.json", "bunfig.toml", *MAKEFILES, *_JUSTFILES, *_COMPOSE, *_DENO, *_MISE,
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
_RUNS_PACKAGES = frozenset({"npx", "bunx", "pnpx"})
_PACKAGE = lazy_regex(r"((?:@[\w.-]+/)?[A-Za-z][\w.-]*)(?:@.*)?")


def looked_for_by(words: Sequence[str]) -> frozenset[str]:
    """Return the names of files that the launchers in a command look for."""
    texts = [text for word in words if len(word) <= 65_536 for text in SIGNS.split(word)]
    there = {re.sub(r"(?<=.)@.*", "", os.path.basename(text)) for text in texts}
    rows = (names for key, names in _LOOKED_FOR.items() if there.issuperset(key.split()))
    return frozenset(name for names in (*rows, _packages(texts), _chosen_by(texts)) for name in names)


def _chosen_by(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the files by which it is chosen what runs, if a program in a command is a shim."""
    for text in list(dict.fromkeys(filter(None, texts)))[:_MAX_NAMES]:
        if is_shim(next(named_programs(text), "")):
            return _VERSIONS
    return ()


def _packages(texts: Sequence[str]) -> Iterator[str]:
    """Yield where the package is whose program `npx` and the like run, if it is installed here."""
    at = next((number for number, text in enumerate(texts, 1) if os.path.basename(text) in _RUNS_PACKAGES), len(texts))
    operands = [found[1] for text in texts[at:] if (found := _PACKAGE.fullmatch(text))]
    for name in operands[:2]:  # the second may be the program, after --package
        yield from (f"node_modules/{name}", f"node_modules/.bin/{name.rpartition('/')[2]}")
