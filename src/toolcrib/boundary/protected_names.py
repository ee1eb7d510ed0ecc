"""A table of names inside a workspace that are never changed without a question, with reasons; and the matching of
paths.

These files make other programs run something (git hooks, editor tasks, shell start files) or widen what an
agent may do (MCP and our own settings). The file tools ask before they write one; the sandbox binds the
existing ones read-only and looks for new ones after each command.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import all_suffixes

from ..core.dataclass import dataclass

RULE_PROTECTED = "shell:protected"


@dataclass(frozen=True, slots=True)
class ProtectedName:
    """A name relative to a workspace root, `/` between its parts, and why it is protected."""

    name: str
    reason: str


# After the protections of sandbox-runtime (.git/hooks, .git/config, shell rc files, .gitconfig, .mcp.json,
# .vscode, .idea, .claude) and Codex (.git, .codex), our own settings, and what starts with a login (systemd.unit(5),
# environment.d(5), the Desktop Application Autostart Specification, startx(1), pam_env(8)).
_SHELL = "a shell runs it at start"
_LOGIN = "it is run when you log in"
_DESKTOP = "Library/Application Support" if sys.platform == "darwin" else ".config"
_NAMED = "version control runs the hooks and programs that it names"
_ENTERED = "the shell runs what it names on entering the directory"
_AGENT = "it says what an agent may run"
_EDITOR = "the editor runs tasks and settings from it"
_REPL = "the interpreter runs it when it is started there"
SHELL_STARTS = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
    ".zlogout", ".bash_aliases", ".kshrc", ".mkshrc",
)  # fmt: skip
"""Files of a person's home whose commands a shell runs at its start or end (`named_by_agents.py`)."""
MISE = (
    "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", "mise/config.toml", "mise/config.local.toml",
    ".mise", ".config/mise.toml", ".config/mise.local.toml", ".config/mise", ".miserc.toml", ".rtx.toml",
    ".rtx.local.toml",
)  # fmt: skip
_BY_REASON = (
    ("git runs what is in it", (".git/hooks",)),
    ("git settings can name programs that git runs", (".git/config", ".git/config.worktree", ".gitconfig")),
    (_NAMED, (".hg/hgrc", ".hg/hgrc-not-shared", ".hgrc", ".config/hg", ".pijul/config", "_darcs/prefs/defaults")),
    (_NAMED, (".jj/repo/config.toml", ".jj/workspace-config.toml", ".jjconfig.toml", ".config/jj")),
    (_NAMED, ("_MTN/monotonerc", ".p4config", ".mrconfig", ".repo/repo")),
    (_NAMED, (".git/lazygit.yml", ".lazygit.yml", ".git/glab-cli", ".sl/config", ".git/sl/config", ".git/gbp.conf")),
    ("version control sends files where it says", (".lfsconfig",)),
    ("where it is, shells of some people find programs of the project", (".git/safe",)),
    (_NAMED, (".reviewboardrc",)),
    ("Jujutsu runs git in it", (".jj/repo/store/git/config", ".jj/repo/store/git/hooks")),
    ("Mercurial or Sapling reads settings from the folder that it names", (".hg/sharedpath", ".sl/sharedpath")),
    (_AGENT, (".mcp.json", ".claude", ".codex", ".cursor/mcp.json", ".cursor/hooks.json", ".clinerules/hooks")),
    (_AGENT, (".gemini", ".kiro", ".roo/mcp.json", ".amazonq", ".agents", "opencode.json", ".iflow", ".codebuddy")),
    (_AGENT, ("opencode.jsonc", ".opencode", "crush.json", ".crush.json", ".qwen", ".qoder", ".grok", ".vibe")),
    (_AGENT, (".continue", ".kilocode/mcp.json", ".kilo", "kilo.json", "kilo.jsonc", ".junie/mcp", ".trae/mcp.json")),
    (_AGENT, (".github/copilot", ".github/extensions", ".github/lsp.json", ".github/mcp.json", ".warp/.mcp.json")),
    (_AGENT, (".cursor/cli.json", ".cursor/sandbox.json", ".cursor/permissions.json", ".factory", ".pi", ".augment")),
    (_AGENT, (".cursor/worktrees.json", ".cursor/environment.json", ".claude.json", ".openhands", "gptme.toml")),
    (_AGENT, (".aider.conf.yml", ".windsurf/hooks.json", ".github/hooks", ".copilot", ".vs/mcp.json")),
    (_AGENT, (".codeium", ".github/agents", ".jetbrains/acp.json", ".config/goose", ".config/opencode")),
    (_AGENT, (".amp", ".config/amp", ".config/crush", ".crushrc", ".crush/crush.json", f"{_DESKTOP}/Claude")),
    (_EDITOR, (".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".project", ".externalToolBuilders")),
    (_EDITOR, (".fleet", ".theia", ".run", ".helix", ".config/zed", ".config/helix", ".kateproject")),
    (_EDITOR, (f"{_DESKTOP}/Code", f"{_DESKTOP}/VSCodium", f"{_DESKTOP}/Cursor")),
    (_EDITOR, (f"{_DESKTOP}/Windsurf", f"{_DESKTOP}/JetBrains")),
    ("the editor loads extensions from it", (".cursor/extensions", ".windsurf/extensions", ".vscode-oss")),
    ("the editor loads extensions from it", (".vscode-server", ".cursor-server", ".windsurf-server")),
    ("the editor runs it when it is started there", (".exrc", ".nvimrc", ".nvim.lua", ".lazy.lua", ".vimrc")),
    ("the editor runs it to complete code", (".ycm_extra_conf.py", ".ropeproject", "gtags.conf")),
    ("the editor starts the server for a language that it names", (".bsp", ".lsp/config.edn", "buildServer.json")),
    ("the server for a language runs what it names", ("hie.yaml", "omnisharp.json", "zls.json", ".sourcekit-lsp")),
    (
        "the debugger runs it when it is started there",
        (".gdbinit", ".lldbinit", ".pdbrc", ".perldb", ".byebugrc", ".rdbgrc"),
    ),
    (_REPL, (".Rprofile", ".irbrc", ".pryrc", ".iex.exs", ".ghci", ".ocamlinit", ".octaverc", ".erlang")),
    (_REPL, (".Renviron", ".RData", ".psysh.php", ".config/irb", "irb.rc", "_irbrc", "$irbrc", "startup.m")),
    (_SHELL, (*SHELL_STARTS, ".bashrc.d", ".bash_profile.d", ".profile.d", ".zshrc.d", ".config/fish", ".inputrc")),
    (_SHELL, (".cshrc", ".tcshrc", ".login", ".logout", ".bash_completion", ".oh-my-zsh", ".xonshrc")),
    (_SHELL, (".zinit", ".local/share/zinit", ".zplug", ".antigen", ".antidote", ".zprezto", ".zim", ".bash_it")),
    (_SHELL, (".oh-my-bash",)),
    (_SHELL, (".config/nushell", ".config/powershell", ".config/xonsh", ".config/elvish", ".elvish")),
    (_SHELL, (".local/share/bash-completion", ".local/share/fish", ".direnvrc", ".config/direnv")),
    (_LOGIN, (".config/autostart-scripts", ".config/openbox", ".config/i3", ".config/sway", ".config/hypr")),
    (_LOGIN, (".xserverrc", ".local/share/dbus-1", ".fluxbox", ".xmonad", ".config/xmonad", ".config/bspwm", ".vnc")),
    (_LOGIN, (".config/awesome", ".config/qtile", ".config/river", ".config/labwc", ".config/niri", ".kde")),
    (_LOGIN, (".config/wayfire.ini", ".config/lxsession", ".config/sxhkd")),
    ("it runs for each mail that arrives", (".forward", ".procmailrc")),
    (_LOGIN, (".config/autostart", ".config/systemd", ".config/environment.d", ".config/plasma-workspace")),
    (_LOGIN, (".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".local/share/systemd")),
    ("it says who may log in, and what ssh runs", (".ssh",)),
    ("a shell finds programs in it by their names", (".local/bin",)),
    ("git settings can name programs that git runs", (".config/git",)),
    (
        "the editor runs it at start",
        (".vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".local/share/nvim"),
    ),
    ("the editor runs it at start", (".doom.d", ".config/doom", ".spacemacs", ".config/micro", ".config/kak")),
    ("the editor runs it at start", (".config/sublime-text", ".config/sublime-text-3")),
    ("tmux and screen run commands from it", (".tmux.conf", ".config/tmux", ".tmux", ".screenrc")),
    ("it names programs that give keys", (".aws/config", ".kube/config", ".vault", ".gnupg/gpg-agent.conf")),
    ("docker and podman run the programs that it names", (".docker/config.json", ".docker/cli-plugins")),
    ("docker and podman run the programs that it names", (".docker/contexts", ".config/containers")),
    ("rustup runs the programs in the folder that it names", ("rust-toolchain.toml", "rust-toolchain")),
    ("direnv runs it on entering the directory", (".envrc", ".envrc.local", ".envrc.private", ".direnv")),
    (_ENTERED, (*MISE, ".tool-versions", ".prototools", ".rvmrc", ".autoenv.zsh")),
    (
        "Python runs it at every start, if it looks in its folder (PYTHONPATH, an editable installation)",
        tuple(f"{name}{end}" for name in ("sitecustomize", "usercustomize") for end in ("", *all_suffixes())),
    ),
    ("it says what Toolcrib allows", ("toolcrib.toml", "toolcrib.json")),
)
PROTECTED_NAMES = tuple(ProtectedName(name, reason) for reason, names in _BY_REASON for name in names)

_IN_HOME = ".claude.json"  # large, and written all the time
AGENT_SETTINGS = (
    *(each.name for each in PROTECTED_NAMES if each.reason == _AGENT and each.name != _IN_HOME),
    ".vscode/mcp.json", ".zed/settings.json", ".envrc", *MISE, *SHELL_STARTS,
)  # fmt: skip
"""Files, and folders with files, whose commands other agents, direnv, mise and shells run (`named_by_agents.py`)."""

# The file tools ask for all of a repository's own files: next to hooks and settings there are the settings of
# submodules and worktrees, lists of commands for a rebase, and links to other settings. Commands may change the rest,
# for git could not work otherwise.
REPOSITORY = ProtectedName(".git", "git keeps settings and lists of commands there")

# In a folder with HEAD and objects (a repository, whatever it is called) these are what `.git/…` is elsewhere.
REPOSITORY_NAMES = frozenset({
    "config", "hooks", "config.worktree", "commondir", "worktrees", "modules", "lazygit.yml",
})  # fmt: skip


# Folders of a repository in which no other one lies: a submodule may be called `a/b`, and another one, or nothing, `a`.
WITHIN_REPOSITORY = frozenset({"objects", "refs", "logs", "info", "hooks", "branches", "lfs", "rr-cache"})


def _parts(relative: str) -> tuple[str, ...]:
    # Case is folded everywhere: `.GIT/Hooks` is the same directory on macOS; asking too often is harmless.
    return tuple(part.casefold() for part in relative.split("/") if part not in ("", "."))


_FOLDED = tuple((_parts(p.name), p) for p in PROTECTED_NAMES)
_FIRST = frozenset(parts[0] for parts, _ in _FOLDED)


def holds_protected(folder: str) -> bool:
    """Return whether a protected name, or a folder with such names, lies directly in a folder."""
    return any(os.path.lexists(f"{folder}/{name}") for name in _FIRST)


def protected_by(relative: str) -> ProtectedName | None:
    """Return the entry that names this path or a directory above it, at any depth (repositories are nested)."""
    parts = _parts(relative)
    for start, part in enumerate(parts):
        if part in _FIRST:
            for name, entry in _FOLDED:
                if parts[start : start + len(name)] == name:
                    return entry
    return REPOSITORY if ".git" in parts[:-1] else None


def protected_below(relative: str) -> ProtectedName | None:
    """Return an entry that lies below this path: moving, replacing or deleting the path would change the entry.

    `.git` (as a file it could point git elsewhere) and `.cursor` are such paths, and so is a root (".").
    """
    parts = _parts(relative)
    if not parts:
        return PROTECTED_NAMES[0]
    for start in range(len(parts)):
        if parts[start] in _FIRST:
            tail = parts[start:]
            for name, entry in _FOLDED:
                if len(tail) < len(name) and name[: len(tail)] == tail:
                    return entry
    return None
