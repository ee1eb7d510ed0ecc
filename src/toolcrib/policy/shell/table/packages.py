"""Describe package managers and build tools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..effects import Effect, of_options, plain
from ..sorting import SortedWords
from .spec import Program, program
from .wordlist import words

LOOK = program("text*")
_PIP_ANYWHERE = " --log=write --cache-dir=write --python=exec --proxy="
_PIP_LOOK = program("text*", _PIP_ANYWHERE)
_NPM_ANYWHERE = "--prefix=list -C=list --logs-dir=write --cache=write --userconfig=read --globalconfig=read"
_NPM_LOOK = program("text*", _NPM_ANYWHERE)
RUN = program("text*", "", "execute")
INSTALL = program("text*", "", "install network")
NETWORK = program("text*", "", "network")

_PIP = {
    "list show freeze check debug inspect help hash": program(
        "maybe*",
        "-r=read --requirement=read --path=list --format= -f= --files -o!network --outdated!network "
        "-u!network --uptodate!network --exclude=" + _PIP_ANYWHERE,
    ),
    "config": program("text*", "", subs={"list get debug": _PIP_LOOK, "*": program("text*", "", "persist")}),
    "cache": program("text*", "", subs={"dir info list": _PIP_LOOK, "*": program("text*", "", "discard")}),
    "*": program(
        "maybe*",
        "-r=read --requirement=read -t=write --target=write --prefix=write --root=write -e=exec -c=read",
        "install network",
    ),
    "": LOOK,
}
_NPM = {
    "ls list ll la root bin prefix help explain why query completion  help-search ": _NPM_LOOK,
    "config c": program("text*", "", subs={"get list ls": _NPM_LOOK, "*": program("text*", "", "persist")}),
    "run run-script test t tst start stop restart  rebuild": RUN,
    "version pkg init  dedupe prune shrinkwrap link unlink": program("text*", "", "change"),
    "cache": program("text*", "", "discard"),
    "*": program("text*", "--script-shell=program --prefix=write -C=write", "install network"),
    "": LOOK,
}
_CARGO = {
    "version help --list": program("text*", "--manifest-path=read"),
    "locate-project read-manifest verify-project pkgid tree build b check c test t run r bench doc "
    "rustc rustdoc clippy fmt fix metadata expand nextest miri": program(
        "text*", "--manifest-path=read --target-dir=write --config=program", "execute"
    ),
    "clean": program("text*", "", "discard"),
    "init new": program("create", "--name= --edition= --vcs="),
    "*": program("text*", "--config=program --root=write --path=exec", "install network"),
    "": LOOK,
}
_GO = {
    "version help": program("text*", "-m -json -f= -C=list -toolexec=program -modfile=read", single=True),
    "env": program("text*", "-w!persist -u!persist -json", single=True),
    "list doc vet fmt build test run generate tool bug fix": program(
        "text*",
        "-o=write -toolexec=program -exec=program -vettool=program -C=list -modfile=read -overlay=read "
        "-coverprofile=write -cpuprofile=write -run= -bench= -count= -timeout= -tags= -ldflags= -gcflags=",
        "execute",
        single=True,
    ),
    "clean": program("text*", "", "discard"),
    "mod": program("text*", "", subs={"graph why verify": LOOK, "*": program("text*", "", "network")}),
    "work": program("text*", "", "change"),
    "*": INSTALL,
}
_APT = program("text*", "-o=aptsetting --option=aptsetting -c=exec --config-file=exec", "install network")
_APT_LOOK = program("text*", "-o=aptsetting --option=aptsetting -c=exec --config-file=exec -a -n")


def _make(call: SortedWords) -> Iterator[Effect]:
    yield from plain(call)
    for word in call.values("--eval", "-E"):
        yield (
            Effect("shell", word, "gives make a rule of its own")
            if (word.text or "").startswith("!")
            else Effect("execute", word)
        )
    for word in call.operands:
        text = word.text or ""
        if re.match(r"SHELL\s*=", text):
            yield Effect("hijack", word, "makes make run another shell")
        for code in re.findall(r"\$\(shell ([^)]*)\)", text):
            yield Effect("shell", code)
    for word in call.values("--eval"):
        for code in re.findall(r"(?:\$\(shell |^\s*\w*:\s*;?\s*|;|\t)([^)\n]*)", word.text or ""):
            if code.strip():
                yield Effect("shell", code.lstrip("-@ "))


_DPKG_LOOKS = words(
    """
    -l --list -L --listfiles -s --status -S --search -p --print-avail --get-selections -c --contents -I --info
    --compare-versions --print-architecture -V --verify -C --audit
    """
)


def _dpkg(call: SortedWords) -> Iterator[Effect]:
    looks = call.has(*_DPKG_LOOKS)
    yield from of_options(call)
    if not looks:
        yield Effect("install")


def _rpm(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    first = call.command.args[0].text if call.command.args else ""
    if not re.match(r"-q\w*|--query|-V|--verify|--eval-x", first or "") or call.has("--pipe"):
        yield Effect("install")
    yield from (Effect("network", word) for word in call.operands if "://" in word.start)  # `rpm -qp URL`


def _pacman(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    first = (call.command.args[0].text if call.command.args else "") or ""
    if not re.match(r"-(?:Q|F[^y]|Si|Ss)", first):
        yield Effect("install")


def _compiler(call: SortedWords) -> Iterator[Effect]:
    if [w.text for w in call.command.args] in (["-v"], ["-dumpversion"], ["-dumpmachine"], ["--print-search-dirs"]):
        return
    yield from plain(call)


def _checks(*flags: str):
    """Return a handler for a formatter or linter that only reports with these flags. Its configuration may run code."""

    def handler(call: SortedWords) -> Iterator[Effect]:
        yield from plain(call)
        yield Effect(
            "execute", None, "runs with the workspace's own configuration, which can name code", "shell:unknown-code"
        )

    return handler


_BUILD = (
    "-C=list --directory=list -f=exec --file=exec --makefile=exec -j? --jobs -n -k -B -s -I=list -o= "
    "-W= --eval= -E= -l?"
)
_GCC = (
    "-o=write -I=list -L=list -l= -include=read -wrapper=program -fplugin=exec -specs=exec -B=exec "
    "-D= -U= -x= -MF=write -MT= -MD -isystem=list -std= -T=read -save-temps -dumpbase="
)
_PROJECT: Program = program(
    "text*", "--config=exec -c=exec -o=write --output=write --output-file=write", handler=_checks()
)

PROGRAMS = {
    "pip": program("text*", "--python=exec -v -q --proxy= --cache-dir=write --log=write", subs=_PIP),
    "pipx pipenv poetry uv pdm hatch rye conda mamba micromamba virtualenv pyenv easy_install uvx": program(
        "text*",
        "--project=list --directory=list",
        subs={
            "list show  version help tree  info check  outdated": program("text*", "--script=exec"),
            "run": RUN,
            "*": INSTALL,
            "": LOOK,
        },
    ),
    "npm cnpm": program("text*", f"{_NPM_ANYWHERE} --silent -s --json", subs=_NPM),
    "pnpm yarn bun": program(
        "text*",
        "-C=list --cwd=list --dir=list",
        subs={
            "help": LOOK,
            "list ls why bin root run test start exec build lint dev": RUN,
            "config": program("text*", "", subs={"get list": LOOK, "*": program("text*", "", "persist")}),
            "*": INSTALL,
            "": INSTALL,
        },
    ),
    "npx pnpx bunx": program("text*", "-c=shell --call=shell", "install network"),
    "nvm fnm volta n asdf mise rustup rbenv sdk jenv corepack": program(
        "text*", "", subs={"list ls current which version show whoami help where doctor": LOOK, "*": INSTALL, "": LOOK}
    ),
    "cargo": program("text*", "--config=program -Z= -C=list -v -q --color= --offline --locked --frozen", subs=_CARGO),
    "go": program("text*", "", subs=_GO),
    "gofmt goimports": program("read*", "-w!change -l -d -s -e -r= -cpuprofile=write", single=True),
    "gem brew port snap flatpak choco winget scoop opam luarocks": program(
        "text*", "", subs={"list info which help environment --versions": LOOK, "*": INSTALL, "": LOOK}
    ),
    "bundle bundler composer mix rebar3 stack cabal ghcup nuget dotnet cpan cpanm swift pod carthage "
    "flutter dart pub mvn gradle "
    "gradlew mvnw sbt lein ant bazel bazelisk buck2 pants nix nix-env nix-shell nix-build nix-store guix": program(
        "text*",
        "",
        subs={"list show test build run compile exec check verify package help deps info": RUN, "*": INSTALL, "": RUN},
    ),
    "apt apt-get aptitude nala": program(
        "text*",
        "-o=aptsetting --option=aptsetting -c=exec --config-file=exec -q -y -s",
        subs={"list show search policy depends rdepends showsrc madison  help": _APT_LOOK, "*": _APT, "": LOOK},
    ),
    "apt-cache ": _APT_LOOK,
    "apt-config": program("text*", "-o=aptsetting --option=aptsetting -c=exec --config-file=exec"),
    "apt-key apt-mark add-apt-repository debconf-set-selections dpkg-reconfigure dpkg-divert "
    "update-alternatives alien": program("text*", "", "system"),
    "dpkg": program(
        "text*",
        "-l --list -L= --listfiles= -s= --status= -S= --search= -p= --print-avail= --get-selections "
        "-c=read --contents=read -I=read --info=read "
        "--compare-versions --print-architecture -V --verify -C --audit --root=write --admindir=list "
        "--pre-invoke=program --post-invoke=program",
        handler=_dpkg,
    ),
    "dpkg-query ": program("text*", "-W -l -L -s -S -f= --showformat="),
    "dpkg-deb": program("read write", "-x!change -X!change -R!change -e!change -b!execute -c -I -f -W"),
    "rpm": program(
        "text*",
        "--root=list -r=list --dbpath=list --pipe=shell --eval=shell -D=!unknown --define=!unknown "
        "--predefine=!unknown --rcfile=exec --macros=exec --load=exec",
        handler=_rpm,
    ),
    "yum dnf microdnf zypper tdnf": program(
        "text*",
        "-c=exec --config=exec -y -q",
        subs={"list info search repolist provides history help": NETWORK, "*": INSTALL, "": LOOK},
    ),
    "pacman yay paru": program("text*", "--config=exec --hookdir=exec -b=list -r=write", handler=_pacman),
    "apk": program("text*", "", subs={"info list policy version": LOOK, "*": INSTALL, "": LOOK}),
    "emerge xbps-install eopkg pkg pkg_add opkg slackpkg": INSTALL,
    # build
    "make gmake bmake": program("text*", _BUILD, "execute", handler=_make),
    "cmake ctest cpack ninja meson just rake task tox nox invoke scons waf autoconf automake "
    "autoreconf libtoolize configure qmake xcodebuild": program(
        "text*", "-C=list -f=exec -B=write -S=list -P=exec --build=write --directory=list", "execute"
    ),
    "gcc g++ cc c++ clang clang++ tcc gfortran rustc javac kotlinc scalac ghc ocamlc ocamlopt swiftc "
    "nvcc tsc as ld gold lld zig nim crystal protoc "
    "swc esbuild emcc yasm nasm valac dmd ldc2 fpc mcs csc": program(
        "maybe*",
        _GCC + " --outDir=write -d=write --out=write --outfile=write",
        "execute",
        single=True,
        handler=_compiler,
    ),
    "pkg-config pkgconf": program("maybe*", "--define-variable= --log-file=write --with-path=list --env="),
    "strip objcopy  patchelf install_name_tool codesign": program(
        "write*", "-o=write --set-interpreter= --set-rpath= --add-needed= -R= -j= -N="
    ),
    # check and format: configuration files in the workspace can load code
    "pytest py.test unittest nosetests jest vitest mocha ava karma cypress playwright phpunit rspec "
    "cucumber behave robot bats shellspec": program(
        "text*",
        "-c=exec --config=exec -o= -p= --junitxml=write --rootdir=list -k= -m= --require=exec -r=exec",
        "execute",
    ),
    "mypy pyright ruff black isort flake8 pylint bandit eslint prettier stylelint rubocop standard "
    "biome xo golangci-lint staticcheck "
    "clang-format clang-tidy cppcheck rustfmt yapf autopep8 pyflakes pycodestyle vulture markdownlint "
    "hadolint yamllint ansible-lint tflint sqlfluff "
    "typos codespell djlint taplo dprint oxlint ktlint swiftlint swiftformat phpcs phpstan psalm "
    "php-cs-fixer credo mdformat commitlint semgrep": _PROJECT,
    "shellcheck": program(
        "read*", "-s= -f= -e= -x -S= -o= --shell= --format= --exclude= --severity= --rcfile=read -P=list"
    ),
    "coverage": program("text*", "", subs={"report": program("text*", "-m --include= --omit="), "*": RUN}),
    "gdb lldb rr valgrind perf bpftrace dtrace py-spy uftrace": program(
        "text*", "-p!process --pid!process -x=exec -ex=shell", "execute"
    ),
}
