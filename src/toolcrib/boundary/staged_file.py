"""Write new content to a file next to the old one, which it then replaces in one step."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from ..core.dataclass import dataclass
from .descriptors import closing_fd
from .openat2 import rename_exchange, rename_new
from .workspace_paths import ChangedMeanwhile, Identity, WorkspacePath, identity

Content = bytes | int
"""What a file will hold: bytes, or the descriptor of a file that is copied, however large it is, with its holes."""

_ACCESS = "system.posix_acl_access"


@dataclass
class Staged:
    """New content next to the file that it will replace: written, but not visible under its name yet.

    `identity` is what the file will have after `commit()`. `before` is the file it replaces, None for a new one.
    """

    dir_fd: int
    name: str
    place: WorkspacePath
    before: os.stat_result | None = None
    temp: str | None = None
    identity: Identity = (0, 0, 0, 0)

    def commit(self) -> None:
        """Replace the old file in one step. Raises ChangedMeanwhile if the file has changed since it was read."""
        assert self.temp is not None
        try:
            if self.before is None:
                rename_new(self.temp, self.name, self.dir_fd, self.dir_fd)
                self.temp = None
            else:
                now = os.lstat(self.name, dir_fd=self.dir_fd)
                if identity(now) != identity(self.before):
                    raise ChangedMeanwhile(f"{self.place.shown} has changed since you read it; read it again")
                self._replace(now)
        except FileExistsError:
            raise ChangedMeanwhile(f"{self.place.shown} was created by something else in the meantime") from None
        except FileNotFoundError:
            raise ChangedMeanwhile(f"{self.place.shown} was removed by something else in the meantime") from None
        finally:
            self.abort()

    def _replace(self, before: os.stat_result) -> None:
        """Put the new content in the place of the old one, which `abort` then removes. What another program has put
        there since `before` comes back, and this raises ChangedMeanwhile."""
        try:
            out = self._swap()
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EPERM):
                raise
            # The file system cannot swap two names: only here what another program saves at this moment is lost.
            assert self.temp is not None
            os.rename(self.temp, self.name, src_dir_fd=self.dir_fd, dst_dir_fd=self.dir_fd)
            self.temp = None
            return
        if out is None or out == identity(before):
            return
        expected = self.identity
        while True:
            put = out
            try:
                out = self._swap()
            except OSError:
                self.temp = None  # what came out keeps the temporary name
                raise
            if out is None or out == expected:
                raise ChangedMeanwhile(f"{self.place.shown} has changed since you read it; read it again")
            expected = put  # it was saved once more: the newest belongs there

    def _swap(self) -> Identity | None:
        """Swap the temporary name with that of the file. Return the identity of what came out; None if another program
        has removed it by now."""
        assert self.temp is not None
        rename_exchange(self.temp, self.name, self.dir_fd, self.dir_fd)
        out = entry(self.dir_fd, self.temp)
        return None if out is None else identity(out)

    def abort(self) -> None:
        """Remove what has the temporary name: new content that was not committed, or the old one. Safe to call at any
        time."""
        if self.dir_fd < 0:
            return
        try:
            if self.temp is not None:
                os.unlink(self.temp, dir_fd=self.dir_fd)
        except OSError:
            pass  # it was removed already
        finally:
            os.close(self.dir_fd)
            self.dir_fd = -1


def entry(dir_fd: int, name: str) -> os.stat_result | None:
    """Return the stat of a name itself; None if the name does not exist."""
    try:
        return os.lstat(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return None


def write_new(
    dir_fd: int, temp: str, data: Content, mode: int | None, name: str, before: os.stat_result | None, sync: bool
) -> Identity:
    """Write a file that did not exist, with the mode, owner and access list of the file `name`, whose stat is `before`.
    Return its identity."""
    # A new file gets its mode from the umask, one that replaces another starts private and takes over its mode.
    start = 0o666 if before is None and mode is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing_fd(os.open(temp, flags, start, dir_fd=dir_fd)) as fd:
        if isinstance(data, int):
            from .copy_tree import copy_content

            copy_content(data, fd)
        else:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        if before is not None:
            now = os.fstat(fd)
            if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
                try:
                    os.fchown(fd, before.st_uid, before.st_gid)
                except PermissionError:
                    pass  # only root may give files away; the content matters more
            _take_over_access(dir_fd, name, fd)
        if mode is None and before is not None:  # other content does not run as its owner, as after each write(2)
            mode = before.st_mode & ~(stat.S_ISUID | stat.S_ISGID)
        if mode is not None:
            os.fchmod(fd, mode & 0o7777)
        if sync:
            os.fsync(fd)
        return identity(os.fstat(fd))


def _take_over_access(dir_fd: int, name: str, fd: int) -> None:
    """Give a file the access list of another, if that has one: its mode alone would let the group do what only the
    named users may. Raises OSError if it cannot be given."""
    access = None
    with contextlib.suppress(OSError, AttributeError):  # it has none, or may not be read; macOS has no such functions
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with closing_fd(os.open(name, flags, dir_fd=dir_fd)) as old:
            access = os.getxattr(old, _ACCESS)
    if access is not None:
        os.setxattr(fd, _ACCESS, access)
