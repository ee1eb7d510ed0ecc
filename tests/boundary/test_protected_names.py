"""The tables of protected and of sensitive names, and how paths match them."""

import time
from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.protected_names import PROTECTED_NAMES, protected_below, protected_by
from toolcrib.boundary.sensitive_names import SENSITIVE_NAMES, _any_name, sensitive_among, sensitive_by  # pyright: ignore[reportPrivateUsage]
from toolcrib.cli.install.clients import CLIENTS


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/hooks", ".git/hooks"),
        (".git/hooks/pre-commit", ".git/hooks"),
        ("vendor/lib/.git/config", ".git/config"),
        (".GIT/Hooks/x", ".git/hooks"),
        ("./.vscode/tasks.json", ".vscode"),
        ("sub/toolcrib.toml", "toolcrib.toml"),
        (".git/index", ".git"),
        ("sub/.hg/hgrc", ".hg/hgrc"),
        (".hg/sharedpath", ".hg/sharedpath"),
        (".sl/sharedpath", ".sl/sharedpath"),
        (".git/glab-cli/config.yml", ".git/glab-cli"),
        ("sub/.rdbgrc", ".rdbgrc"),
        (".hg/hgrc-not-shared", ".hg/hgrc-not-shared"),
        ("sub/.jj/workspace-config.toml", ".jj/workspace-config.toml"),
        (".jj/repo/store/git/hooks/pre-push", ".jj/repo/store/git/hooks"),
        ("_darcs/prefs/defaults", "_darcs/prefs/defaults"),
        ("sub/.iex.exs", ".iex.exs"),
        (".hg/store/00manifest.i", None),
        ("src/sitecustomize/__init__.py", "sitecustomize"),
        (f"src/usercustomize{EXTENSION_SUFFIXES[0]}", f"usercustomize{EXTENSION_SUFFIXES[0]}"),
        ("src/sitecustomize.pyc", "sitecustomize.pyc"),
        ("sub/mise.toml", "mise.toml"),
        (".config/mise/conf.d/a.toml", ".config/mise"),
        (".tool-versions", ".tool-versions"),
        ("sub/rust-toolchain.toml", "rust-toolchain.toml"),
        (".envrc.private", ".envrc.private"),
        (".direnv/flake-profile-1.rc", ".direnv"),
        (".repo/repo/main.py", ".repo/repo"),
        (".mrconfig", ".mrconfig"),
        ("sub/.git/lazygit.yml", ".git/lazygit.yml"),
        (".lazygit.yml", ".lazygit.yml"),
        (".git/sl/config", ".git/sl/config"),
        (".Renviron", ".Renviron"),
        (".RData", ".RData"),
        (".perldb", ".perldb"),
        (".config/irb/irbrc", ".config/irb"),
        (".externalToolBuilders/a.launch", ".externalToolBuilders"),
        (".clinerules/hooks/PreToolUse", ".clinerules/hooks"),
        (".clinerules/style.md", None),
        (".factory/settings.json", ".factory"),
        (".pi/extensions/x.ts", ".pi"),
        (".node-version", None),
        (".local/share/nvim/site/plugin/x.lua", ".local/share/nvim"),
        (".zinit/bin/zinit.zsh", ".zinit"),
        (".bashrc.d/x", ".bashrc.d"),
        (".aws/config", ".aws/config"),
        (".opencode/plugin/x.ts", ".opencode"),
        (".windsurf/hooks.json", ".windsurf/hooks.json"),
        (".windsurf/rules/style.md", None),
        (".github/hooks/any.json", ".github/hooks"),
        (".github/agents/x.agent.md", ".github/agents"),
        (".agents/skills/x/agents/openai.yaml", ".agents"),
        (".amazonq/cli-agents/x.json", ".amazonq"),
        (".github/workflows/ci.yml", None),
        (".copilot/hooks/any.json", ".copilot"),
        (".tcshrc", ".tcshrc"),
        (".kshrc", ".kshrc"),
        (".local/share/bash-completion/completions/git", ".local/share/bash-completion"),
        (".local/share/applications/x.desktop", None),
        (".config/sway/config", ".config/sway"),
        (".procmailrc", ".procmailrc"),
        ("sub/.run/Start.run.xml", ".run"),
        (".theia/tasks.json", ".theia"),
        (".helix/languages.toml", ".helix"),
        (".amp/settings.json", ".amp"),
        (".fleet/run.json", ".fleet"),
        (".git/commondir", ".git"),
        ("sub/.git/modules/x/config", ".git"),
        (".git/rebase-merge/git-rebase-todo", ".git"),
        (".gitignore", None),
        ("hooks/pre-commit", None),
        ("my.bashrc", None),
        ("", None),
    ],
)
def test_protected(path, name):
    entry = protected_by(path)
    assert (entry.name if entry else None) == name


def test_what_install_writes_is_protected():
    for client in CLIENTS.values():
        for place in filter(None, (client.servers, client.agents, client.hooks)):
            for path in filter(None, (place.in_workspace, place.in_home)):
                assert protected_by(path), path
    assert protected_by(".jetbrains/acp.json")


def test_what_lies_above_a_protected_name():
    assert protected_below(".git") and protected_below("sub/.git") and protected_below(".config")
    assert protected_below(".") and protected_below("")
    assert not protected_below(".git/hooks/x") and not protected_below("src")


def test_every_entry_is_relative_reasoned_and_matches_itself():
    for entry in PROTECTED_NAMES:
        assert entry.reason and not entry.name.startswith("/") and ".." not in entry.name.split("/")
        assert protected_by(entry.name) == entry and protected_by(f"x/{entry.name}/y") == entry
        if "/" in entry.name:
            assert protected_below(entry.name.partition("/")[0])


@pytest.mark.parametrize(
    "path",
    [".env", "a/.env.local", "prod.env", "x/server.PEM", "id_rsa", "k/id_ed25519_work", ".ssh/config",
     ".aws/credentials", "etc/shadow", "terraform.tfstate", ".kube/config", "/home/u/.netrc", "service-account-1.json",
     "a\nb/.env", ".aws/sso/cache/x.json", ".config/gh/hosts.yml", ".env-prod", "#.env#", ".dev.vars", "kubeconfig.yml",
     "terraform.tfstate.backup", "client_secret_1.json", ".codex/auth.json", ".claude/.credentials.json", ".secrets",
     ".m2/settings.xml", "p/.mozilla/firefox/x/logins.json", ".vault_pass.txt", ".config/rclone/rclone.conf"],
)  # fmt: skip
def test_sensitive(path):
    entry = sensitive_by(path)
    assert entry is not None and entry.reason and entry in SENSITIVE_NAMES


@pytest.mark.parametrize(
    "path",
    [".env.example", "id_rsa.pub", "environment.py", "id_mapping.py", "src/id_test.go", "monkey.py", "a.environ",
     "ssh/config", "kube/config", "pem", "keys.md", ".envs/readme.md", ".env_example", "kubeconfig.go", "auth.json",
     "templates/secret.yaml", "settings.xml", "secrets.py", "variables.tfvars", "password.go"],
)  # fmt: skip
def test_not_sensitive(path):
    assert sensitive_by(path) is None


def test_what_sensitive_names_begin_with_in_common_is_looked_for_once():
    assert not any("(?s" in each.pattern for each in _any_name())  # a group for each took six times as long


def test_sensitive_names_of_a_large_folder_are_found_in_time_linear_in_their_number():
    names = [f"file_{number}.py" for number in range(8_000)]
    began = time.process_time()
    assert sensitive_among("/w", [*names, ".env", "service-account\nx.json"]) == [".env", "service-account\nx.json"]
    assert sensitive_among("/w", names) == []
    assert sensitive_among("/w", ["service-account\nx.json"]) == ["service-account\nx.json"]
    assert sensitive_among("/w", []) == []
    assert time.process_time() - began < 3


@given(st.text(max_size=80))
def test_any_name_is_survived(path):
    sensitive_by(path)
    protected_by(path)
    protected_below(path)
