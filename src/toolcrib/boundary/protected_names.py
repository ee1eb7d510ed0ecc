"""A table of names inside a workspace that are never changed without a question, with reasons; and the matching of
paths.

These files make other programs run something (git hooks, editor tasks, shell start files) or widen what an
agent may do (MCP and our own settings). The file tools ask before they write one; the sandbox binds the
existing ones read-only and looks for new ones after each command.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProtectedName:
    """A name relative to a workspace root, `/` between its parts, and why it is protected."""

    name: str
    kind: Literal["file", "dir"]
    reason: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the name as path components."""
        return tuple(self.name.split("/"))

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the directories above it inside the root, outermost first: `.git` for `.git/hooks`."""
        parts = self.parts
        return tuple("/".join(parts[:n]) for n in range(1, len(parts)))


_HOOK = "git runs what is in it"
_GIT = "git settings can name programs that git runs"
_SHELL = "a shell runs it at start"
_EDITOR = "the editor runs tasks and settings from it"
_AGENT = "it says what an agent may run"
_OURS = "it says what Toolcrib allows"

# After the protections of sandbox-runtime (.git/hooks, .git/config, shell rc files, .gitconfig, .mcp.json,
# .vscode, .idea, .claude) and Codex (.git, .codex), and our own settings.
PROTECTED_NAMES: tuple[ProtectedName, ...] = (
    ProtectedName(".git/hooks", "dir", _HOOK),
    ProtectedName(".git/config", "file", _GIT),
    ProtectedName(".git/config.worktree", "file", _GIT),
    ProtectedName(".gitconfig", "file", _GIT),
    ProtectedName(".mcp.json", "file", _AGENT),
    ProtectedName(".claude", "dir", _AGENT),
    ProtectedName(".codex", "dir", _AGENT),
    ProtectedName(".cursor/mcp.json", "file", _AGENT),
    ProtectedName(".vscode", "dir", _EDITOR),
    ProtectedName(".idea", "dir", _EDITOR),
    ProtectedName(".bashrc", "file", _SHELL),
    ProtectedName(".bash_profile", "file", _SHELL),
    ProtectedName(".bash_login", "file", _SHELL),
    ProtectedName(".bash_logout", "file", _SHELL),
    ProtectedName(".profile", "file", _SHELL),
    ProtectedName(".zshrc", "file", _SHELL),
    ProtectedName(".zshenv", "file", _SHELL),
    ProtectedName(".zprofile", "file", _SHELL),
    ProtectedName(".zlogin", "file", _SHELL),
    ProtectedName(".config/fish", "dir", _SHELL),
    ProtectedName(".envrc", "file", "direnv runs it on entering the directory"),
    ProtectedName("toolcrib.toml", "file", _OURS),
    ProtectedName("toolcrib.json", "file", _OURS),
)


# The file tools ask for all of a repository's own files: next to hooks and settings there are the settings of
# submodules and worktrees, lists of commands for a rebase, and links to other settings. Commands may change the rest,
# for git could not work otherwise.
REPOSITORY = ProtectedName(".git", "dir", "git keeps settings and lists of commands there")

# In a folder with HEAD and objects (a repository, whatever it is called) these are what `.git/…` is elsewhere.
REPOSITORY_NAMES = frozenset({"config", "hooks", "config.worktree", "commondir", "worktrees", "modules"})


def _parts(relative: str) -> tuple[str, ...]:
    # Case is folded everywhere: `.GIT/Hooks` is the same directory on macOS; asking too often is harmless.
    return tuple(part.casefold() for part in relative.split("/") if part not in ("", "."))


_FOLDED = tuple((_parts(p.name), p) for p in PROTECTED_NAMES)
_FIRST = frozenset(parts[0] for parts, _ in _FOLDED)


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


def protected_parents() -> Iterator[str]:
    """Yield every directory above a protected name, once, outer ones first: a sandbox must pin these in place."""
    yield from sorted({parent for entry in PROTECTED_NAMES for parent in entry.parents}, key=lambda p: p.count("/"))
