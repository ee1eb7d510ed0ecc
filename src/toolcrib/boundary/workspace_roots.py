"""The granted directories and files: find the root of a path by its text, and open the path below its descriptor."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from ..core.errors import ConfigError, OutsideWorkspace, ToolError
from .descriptors import closing_fd
from .host_file import HostFile
from .openat2 import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, has_openat2, openat2
from .private_folders import PrivateFolders
from .programs import check_grant
from .real_path import real_path
from .walk import Escape, LinkMet, walk_open
from .workspace_paths import WHOLE_MACHINE, GrantedRoot, LinkRefused, PrivatePath, WorkspacePath

PathLike = str | os.PathLike[str]
Method = Literal["openat2", "walk"]

LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
"""Flags of a descriptor that only refers to a place."""

_MAX_PATH = 4096  # characters of a path: Linux's limit (PATH_MAX); longer ones only cost time


class WorkspaceRoots:
    """The granted roots. Relative paths belong to `root`; absolute ones to the innermost root above them.
    `host_files` are files in them that the host runs, besides our own environment. `unlisted` are further roots for
    reading, in which only what is named by its path is there: they cannot be listed or searched. They alone may lie in
    our `private` folders, which no path reaches."""

    def __init__(
        self,
        root: PathLike,
        read_roots: Iterable[PathLike] = (),
        write_roots: Iterable[PathLike] = (),
        *,
        method: Method | None = None,
        host_files: Iterable[HostFile] = (),
        unlisted: Iterable[PathLike] = (),
    ) -> None:
        self.host_files = tuple(host_files)
        self._method: Method = method or ("openat2" if has_openat2() else "walk")
        self._fds: dict[GrantedRoot, int] = {}
        self._spellings: dict[str, GrantedRoot] = {}  # every known path of a root
        self.private = PrivateFolders.ours()
        self._with_private: set[GrantedRoot] = set()  # the roots in which our own folders lie
        self._unlisted: set[GrantedRoot] = set()
        weakref.finalize(self, _close_all, self._fds)
        self.root = self._grant(root, writable=real_path(root) != WHOLE_MACHINE).path
        self._root = str(self.root)
        write_roots, read_roots = tuple(write_roots), tuple(read_roots)
        for extra in (*write_roots, *read_roots):
            check_grant(extra, (*self.writable, *write_roots))
        for extra in write_roots:
            self._grant(extra, writable=True)
        for extra in read_roots:
            self._grant(extra, writable=False)
        self._unlisted.update(self._grant(extra, writable=False, ours=True) for extra in unlisted)

    def _grant(self, given: PathLike, *, writable: bool, ours: bool = False) -> GrantedRoot:
        spelled = os.path.abspath(os.path.expanduser(given))
        real = real_path(spelled)
        folder, only = os.path.split(real) if os.path.isfile(real) else (real, "")
        if only and writable:
            what = "sandbox.write_roots:" if self._fds else "workspace directory"
            raise ConfigError(
                f"{what} {spelled} is a file; name a folder (a single file can be granted for reading "
                "only: sandbox.read_roots)"
            )
        root = GrantedRoot(Path(folder), writable, only)
        if real in self._spellings:  # granted twice: the first grant counts
            self._spellings.setdefault(spelled, self._spellings[real])
            return self._spellings[real]
        try:
            real.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{real!a}: the name is not UTF-8, and the record can hold no other; rename it") from None
        if not ours and self.private.holds(real):
            raise ConfigError(
                f"{spelled} belongs to Toolcrib itself (settings or state); tools cannot work there. Go to another "
                "folder, or name one with --workspace"
            )
        if self.private.lie_in(real):
            self._with_private.add(root)
        try:
            self._fds[root] = os.open(folder, LOOK | os.O_DIRECTORY)
        except OSError as error:
            if not self._fds or ours:
                what = "folder" if self._fds else "workspace directory"
                raise ConfigError(f"{what} {spelled}: {error.strerror}") from None
            setting = f"sandbox.{'write' if writable else 'read'}_roots"
            raise ConfigError(
                f"{setting}: {spelled}: {error.strerror}. Make it, or change the setting: `toolcrib config` shows "
                f"where it was set, `toolcrib config unset {setting}` removes it (with --project from toolcrib.toml)"
            ) from None
        self._spellings[real] = root
        self._spellings.setdefault(spelled, root)
        return root

    def close(self) -> None:
        """Close the roots; the workspace cannot be used afterwards."""
        _close_all(self._fds)

    def roots(self) -> tuple[GrantedRoot, ...]:
        """Return all granted roots, the workspace itself first."""
        return tuple(self._fds)

    @property
    def writable(self) -> list[Path]:
        """The roots that tools may write."""
        return [root.path for root in self._fds if root.writable]

    def is_listed(self, place: WorkspacePath) -> bool:
        """Return whether the root of this path can be listed, and commands see it."""
        return place.root not in self._unlisted

    # The location of a path, by its text

    def locate(self, path: PathLike) -> WorkspacePath:
        """Return the root and parts of a path. `..` is resolved by its text. Raises OutsideWorkspace if no root
        contains the path, ToolError if the path is not valid."""
        text = os.fspath(path)
        if "\0" in text:
            raise ToolError("a path cannot contain a NUL character")
        if text == "~" or text.startswith("~/"):
            text = os.path.expanduser(text)
        if len(text) > _MAX_PATH:
            raise ToolError(f"a path of {len(text):,} characters is too long; {_MAX_PATH:,} are possible")
        absolute = os.path.normpath(os.path.join(self._root, text) if text else self._root)
        if absolute.startswith("//"):  # POSIX keeps two leading slashes
            absolute = absolute[1:]
        holder = absolute
        while (root := self._spellings.get(holder)) is None:
            if holder == "/":
                raise self._outside(text)
            holder = holder[: holder.rfind("/")] or "/"
        rest = absolute[len(holder) :].strip("/")
        parts = tuple(rest.split("/")) if rest else ()
        if root.only:
            parts = (root.only, *parts)
        if not parts and root in self._unlisted:
            raise OutsideWorkspace(f"{root.path} cannot be listed or searched: name a file in it by its whole path")
        place = WorkspacePath(root, parts, self._shown(root.path, parts))
        if root in self._with_private:
            self._refuse_private(root, os.path.join(root.path, *parts), place)
        return place

    def _refuse_private(self, root: GrantedRoot, real: str, place: WorkspacePath) -> None:
        """Raise PrivatePath if a path, of which `root` is the innermost root, is in one of our own folders."""
        if root in self._with_private and self.private.holds(real):
            raise PrivatePath(
                f"{place.shown} belongs to Toolcrib itself (its settings, its record, what it trusts). Tools cannot "
                "read or change it."
            )

    def relative(self, path: PathLike) -> str:
        """Return the canonical path: relative to the workspace root, or absolute in another root."""
        return self.locate(path).shown

    def _shown(self, root: Path | str, parts: Sequence[str]) -> str:
        if str(root) == self._root:
            return "/".join(parts) or "."
        return os.path.join(root, *parts)

    def _outside(self, shown: str, via: str = "") -> OutsideWorkspace:
        granted = [root for root in self.roots()[1:] if root not in self._unlisted]
        more = [f"{r.shown} ({'read and write' if r.writable else 'read only'})" for r in granted]
        also = f"; also granted: {', '.join(more)}" if more else ""
        return OutsideWorkspace(
            f"{shown!r} is outside the workspace{via}. The workspace is {self.root}{also}. "
            "Use a path relative to the workspace."
        )

    # Opening

    def _root_fd(self, root: GrantedRoot) -> int:
        fd = self._fds.get(root)
        if fd is None:
            raise ConfigError(f"the workspace {root.path} is closed")
        return fd

    def _revive(self, root: GrantedRoot) -> bool:
        """Open a root again that was deleted and created again by another program. Return whether that helped."""
        fd = self._root_fd(root)
        if os.fstat(fd).st_nlink:
            return False
        try:  # its path had no links: a link in it now was put there to lead somewhere else
            with closing_fd(os.open("/", LOOK | os.O_DIRECTORY)) as top:
                fresh = walk_open(top, root.path.parts[1:], LOOK | os.O_DIRECTORY, follow=False)[0]
        except OSError:
            return False
        os.dup2(fresh, fd, inheritable=False)
        os.close(fresh)
        return True

    def _reroot(self, target: str) -> tuple[int, tuple[str, ...], str] | None:
        try:
            place = self.locate(target)
        except ToolError:
            return None
        if place.root.only:  # a link beside that file must not lead to the next one
            return None
        return self._root_fd(place.root), place.parts, str(place.root.path)

    def _walk(self, place: WorkspacePath, flags: int, *, follow: bool) -> tuple[int, str, tuple[str, ...]]:
        follow = follow and not place.root.only
        try:
            fd, root, parts = walk_open(
                self._root_fd(place.root),
                place.parts,
                flags,
                root_path=str(place.root.path),
                follow=follow,
                reroot=self._reroot,
            )
        except LinkMet as met:
            raise self._link_refused(place, met) from None
        except Escape as out:
            raise self._outside(place.shown, f": {out.at} is a link to {out.target}") from None
        try:
            self._refuse_private(self._spellings.get(root, place.root), os.path.join(root, *parts), place)
        except BaseException:
            os.close(fd)
            raise
        return fd, root, parts

    def _link_refused(self, place: WorkspacePath, met: LinkMet) -> LinkRefused:
        whole = os.path.relpath(os.path.join(self.root, place.shown), place.root.path)
        rest = whole[len(met.at) :]
        real = os.path.normpath(os.path.join(place.root.path, os.path.dirname(met.at), met.target)) + rest
        try:
            hint = f"Use {self.relative(real)!r} itself if that is what you mean."
        except ToolError:
            hint = "It points outside the workspace."
        return LinkRefused(f"{place.shown} is or leads through a link ({met.at} -> {met.target}). {hint}")

    def _open(self, place: WorkspacePath, flags: int, *, follow: bool = True) -> int:
        try:
            return self._open_once(place, flags, follow)
        except FileNotFoundError:
            if not self._revive(place.root):
                raise
            return self._open_once(place, flags, follow)

    def _open_once(self, place: WorkspacePath, flags: int, follow: bool) -> int:
        if self._method == "openat2":
            links = 0 if follow and not place.root.only else RESOLVE_NO_SYMLINKS
            resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | links
            try:
                fd = openat2(self._root_fd(place.root), "/".join(place.parts) or ".", flags, resolve)
                if not follow or place.root not in self._with_private or self._is_not_private(fd, place):
                    return fd
            except OSError as error:
                # EXDEV: an absolute link, which may point back inside; ELOOP: links, or a magic one; EAGAIN:
                # another program renames all the time. The walk finds a way, or the right error.
                if error.errno not in (errno.EXDEV, errno.ELOOP, errno.EAGAIN):
                    raise
        return self._walk(place, flags, follow=follow)[0]

    def _is_not_private(self, fd: int, place: WorkspacePath) -> bool:
        """Return whether the links on the way led to no folder of ours; False if it is not known. Then, and if it
        raises PrivatePath, the descriptor is closed."""
        try:
            self._refuse_private(place.root, os.readlink(f"/proc/self/fd/{fd}"), place)
        except OSError as error:
            os.close(fd)
            if isinstance(error, PrivatePath):
                raise
            return False
        return True


def _close_all(fds: dict[GrantedRoot, int]) -> None:
    while fds:
        os.close(fds.popitem()[1])
