"""Open and change the files that a call can reach: paths below granted roots, opened so that they cannot lead outside.

A path is relative to the workspace root, or absolute below a granted root. It is brought into one canonical form by its
text alone and then opened below the root's descriptor in one step (`openat2`) or by a walk over descriptors; it is
never resolved first and opened afterwards. Reading follows links that stay inside the roots. Changing follows no link
at all, so the file that was judged by name is the file that is changed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager

from ..core.errors import ToolError
from .descriptors import closing_fd
from .openat2 import kernel_filesystem
from .staged_file import Content, Staged, entry, write_new
from .walk import LinkMet
from .workspace_paths import (
    WHOLE_MACHINE,
    ChangedMeanwhile,
    Identity,
    NotRegularFile,
    PrivatePath,
    ReadOnlyRoot,
    WorkspacePath,
    identity,
    kind_of,
)
from .workspace_roots import LOOK, PathLike, WorkspaceRoots

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Workspace(WorkspaceRoots):
    """The files below the granted roots, for reading and changing. Raises OutsideWorkspace for a path that leads out
    of them."""

    def open_read(self, path: PathLike, *, follow: bool = True) -> int:
        """Return a descriptor of a regular file, for reading. Raises NotRegularFile for anything else, without waiting
        or reading.

        Without `follow` it raises LinkRefused for links: for a file that will be changed, so that no other file is
        shown.
        """
        place = self.locate(path)
        try:
            fd = self._open(place, _READ, follow=follow)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, or a device that is not there
                raise NotRegularFile(f"{place.shown} is not a regular file (a socket or device)") from None
            raise
        try:
            self._must_be_regular(fd, place)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _must_be_regular(self, fd: int, place: WorkspacePath) -> None:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise NotRegularFile(f"{place.shown} is {kind_of(mode)}, not a regular file")
        kernel = kernel_filesystem(fd)
        if kernel is not None:
            raise NotRegularFile(f"{place.shown} belongs to the kernel ({kernel}), not a regular file")

    def open_dir(self, path: PathLike) -> int:
        """Return a descriptor of a directory, for listing and as a base for further opening."""
        return self._open(self.locate(path), _DIRECTORY)

    def stat(self, path: PathLike) -> os.stat_result:
        """Return the stat of the path's target. Links inside are followed."""
        with closing_fd(self._open(self.locate(path), LOOK)) as fd:
            return os.fstat(fd)

    def lstat(self, path: PathLike) -> os.stat_result:
        """Return the stat of the name itself: of the link, if it is one. Links above it are followed."""
        place = self.locate(path)
        if not place.parts:
            return self.stat(path)
        above = WorkspacePath(place.root, place.parts[:-1], place.shown)
        with closing_fd(self._open(above, LOOK | os.O_DIRECTORY)) as parent:
            return os.lstat(place.parts[-1], dir_fd=parent)

    def exists(self, path: PathLike) -> bool:
        """Return whether the path leads to something inside. It is False for a link that leads out and for a
        dangling link."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def real(self, path: PathLike) -> str:
        """Return the canonical path of the file that the path leads to. Links inside are followed."""
        fd, root, parts = self._walk(self.locate(path), LOOK, follow=True)
        os.close(fd)
        return self._shown(root, parts)

    def name_of(self, fd: int) -> str | None:
        """Return the current canonical path of an open file; None if the system does not know it."""
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
            return self.relative(name if os.fstat(fd).st_nlink else name.removesuffix(" (deleted)"))
        except (OSError, ToolError):
            return None

    # Changing: never through a link

    def locate_to_change(self, path: PathLike, *, as_directory: bool = False) -> WorkspacePath:
        """Return the root and parts of a path to be changed. Raises ReadOnlyRoot, or PrivatePath for what our own
        folders lie in; with `as_directory` that may be made, if it is missing."""
        place = self.locate(path)
        if not place.root.writable:
            if str(place.root.path) == WHOLE_MACHINE:
                raise ReadOnlyRoot(
                    f"{place.shown} cannot be changed: the workspace is the whole machine (/), which can only be read. "
                    "Work in a smaller folder (--workspace)."
                )
            where = "" if place.root.only else f"in {place.root.path}, which is "
            raise ReadOnlyRoot(f"{place.shown} is {where}granted for reading only")
        if not as_directory and self.private.is_on_the_way(os.path.join(place.root.path, *place.parts)):
            raise PrivatePath(
                f"Toolcrib's own files lie in {place.shown}: tools can change other things in it, but not move, "
                "replace or remove it"
            )
        return place

    def open_parent(self, path: PathLike, *, as_directory: bool = False) -> tuple[int, str, WorkspacePath]:
        """Open the directory of a path to be changed, without following any link. Return it with the last name.
        Raises ReadOnlyRoot, LinkRefused or PrivatePath."""
        place = self.locate_to_change(path, as_directory=as_directory)
        if not place.parts:
            raise ToolError(f"{place.shown} is the root of a granted directory; it cannot be changed as a file")
        above = WorkspacePath(place.root, place.parts[:-1], place.shown)
        return self._open(above, LOOK | os.O_DIRECTORY, follow=False), place.parts[-1], place

    @contextmanager
    def _parent(self, path: PathLike, *, as_directory: bool = False) -> Generator[tuple[int, str]]:
        """Do the same for a block, at whose end the directory is closed."""
        parent, name, _ = self.open_parent(path, as_directory=as_directory)
        with closing_fd(parent):
            yield parent, name

    def missing_parents(self, path: PathLike) -> list[str]:
        """Return the directories above a path that do not exist yet, outermost first, in canonical form."""
        place = self.locate(path)
        missing: list[str] = []
        for n in range(len(place.parts) - 1, 0, -1):
            above = WorkspacePath(place.root, place.parts[:n], self._shown(place.root.path, place.parts[:n]))
            try:
                fd = self._open(above, LOOK | os.O_DIRECTORY, follow=False)
            except FileNotFoundError:
                missing.append(above.shown)
            else:
                os.close(fd)
                break
        return missing[::-1]

    def mkdir(self, path: PathLike, *, exist_ok: bool = False) -> None:
        """Make one directory; those above it must exist. Raises LinkRefused for a link in the way."""
        with self._parent(path, as_directory=True) as (parent, name):
            try:
                os.mkdir(name, 0o777, dir_fd=parent)
            except FileExistsError:
                if not exist_ok:
                    raise
                if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.relative(path)) from None

    def stage(
        self,
        path: PathLike,
        data: Content,
        mode: int | None = None,
        *,
        sync: bool = True,
        expect: Identity | None = None,
        override: bool = False,
    ) -> Staged:
        """Write new content next to a file, ready to replace it in one step. The old file's mode is used unless one is
        given. The folders above it must exist.

        `expect` is the identity that the old file must still have, or it raises ChangedMeanwhile. `sync` flushes
        the content to the disk. `override` replaces a write-protected file, too.
        """
        parent, name, place = self.open_parent(path)
        staged = Staged(parent, name, place)
        try:
            before = staged.before = entry(parent, name)
            self._must_be_replaceable(before, parent, name, place, override)
            if expect is not None and (before is None or identity(before) != expect):
                raise ChangedMeanwhile(f"{place.shown} has changed since you read it; read it again")
            temp = staged.temp = f".{name[:40]}.{secrets.token_hex(6)}.tmp"  # 40 characters: at most 160 bytes of 255
            staged.identity = write_new(parent, temp, data, mode, name, before, sync)
        except BaseException:
            staged.abort()
            raise
        return staged

    def _must_be_replaceable(
        self, st: os.stat_result | None, parent: int, name: str, place: WorkspacePath, override: bool
    ) -> None:
        if st is None:
            return
        if stat.S_ISLNK(st.st_mode):
            met = LinkMet("/".join(place.parts), os.readlink(name, dir_fd=parent))
            raise self._link_refused(place, met)
        if not stat.S_ISREG(st.st_mode):
            raise NotRegularFile(f"{place.shown} is {kind_of(st.st_mode)}, not a regular file")
        if not override and not os.access(
            name, os.W_OK, dir_fd=parent, effective_ids=os.access in os.supports_effective_ids
        ):
            raise PermissionError(errno.EACCES, "the file is write-protected", place.shown)

    def chmod(self, path: PathLike, mode: int) -> None:
        """Set the permission bits of a regular file or directory. Raises LinkRefused for links, ReadOnlyRoot or
        NotRegularFile."""
        place = self.locate_to_change(path)
        with closing_fd(self._open(place, _READ, follow=False)) as fd:
            st = os.fstat(fd)
            if not (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)):
                raise NotRegularFile(f"{place.shown} is {kind_of(st.st_mode)}, not a regular file")
            os.fchmod(fd, mode & 0o7777)

    def rmdir(self, path: PathLike) -> None:
        """Remove an empty directory."""
        with self._parent(path) as (parent, name):
            os.rmdir(name, dir_fd=parent)
