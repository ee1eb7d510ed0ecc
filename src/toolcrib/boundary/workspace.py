"""The files a call can reach: paths below granted roots, opened so that nothing can lead out of them.

A path is spelled relative to the workspace root, or absolute below a granted root. It is brought into one
canonical form by its letters alone and then opened below the root's descriptor in one step (`openat2`) or by a
walk over descriptors; it is never resolved first and opened afterwards. Reading follows links that stay inside
the roots. Changing anything follows no link at all, so what was judged by name is what is changed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..core.errors import ConfigError, OutsideWorkspace, ToolError
from ..core.verdict import Judgement
from .openat2 import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    has_openat2,
    kernel_filesystem,
    openat2,
    rename_new,
)
from .protected import REPOSITORY, REPOSITORY_NAMES, ProtectedName, protected_below, protected_by
from .sensitive import SensitiveName, sensitive_by
from .walk import Escape, LinkMet, walk_open

PathLike = str | os.PathLike[str]
Method = Literal["openat2", "walk"]

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC

_LONGEST = 4096  # characters of a path: what Linux takes (PATH_MAX); longer ones only cost time

# What `Judgement.rule` says of a path; `check --bare` and the policy tell the cases apart by these.
RULE_OUTSIDE = "path:outside"
RULE_READ_ONLY = "path:read-only"
RULE_SECRET = "path:secret"  # noqa: S105
RULE_PROTECTED = "path:protected"
RULE_LINKED = "path:hard-link"


class NotRegularFile(ToolError):
    """The path is a directory, FIFO, device or socket where a regular file is needed."""


class LinkRefused(ToolError):
    """The path to be changed is a link or leads through one. The text names where it points."""


class ReadOnlyRoot(ToolError, PermissionError):
    """The path lies in a root that was granted for reading only."""

    def __str__(self) -> str:  # OSError would format (errno, strerror)
        return str(self.args[0]) if self.args else ""


class ChangedMeanwhile(ToolError):
    """The file is not the one that was looked at: somebody changed it in between."""


Identity = tuple[int, int, int, int]
"""Device, inode, modification time in ns and size: equal for an untouched file, whatever is renamed around it."""


def identity(st: os.stat_result) -> Identity:
    """The identity of a file from its stat."""
    return (st.st_dev, st.st_ino, st.st_mtime_ns, st.st_size)


@dataclass(frozen=True, slots=True)
class Root:
    """One granted directory: its real path, and whether it may be changed."""

    path: Path
    writable: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path lies by its letters: the root and the parts below it. `shown` is its canonical spelling."""

    root: Root
    parts: tuple[str, ...]
    shown: str

    @property
    def path(self) -> Path:
        """The absolute path, for messages and for other programs; never to be opened by ourselves."""
        return self.root.path.joinpath(*self.parts)


class Staged:
    """New content beside the file it will replace: written, not yet seen by anybody.

    `identity` is what the file will have after `commit()`. `before` is the file it replaces, None for a new one.
    """

    def __init__(self, dir_fd: int, name: str, temp: str, place: Place, before: os.stat_result | None) -> None:
        self._dir_fd = dir_fd
        self._name = name
        self._temp: str | None = temp
        self.place = place
        self.before = before
        self.identity: Identity = (0, 0, 0, 0)

    def commit(self) -> None:
        """Put the content in place in one step; ChangedMeanwhile if the old file is no longer the one seen."""
        assert self._temp is not None
        try:
            if self.before is None:
                rename_new(self._temp, self._name, self._dir_fd, self._dir_fd)
            else:
                now = os.lstat(self._name, dir_fd=self._dir_fd)
                if identity(now) != identity(self.before):
                    raise ChangedMeanwhile(f"{self.place.shown} was changed by somebody else; read it again")
                os.rename(self._temp, self._name, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
            self._temp = None
        except FileExistsError:
            raise ChangedMeanwhile(f"{self.place.shown} was created by somebody else meanwhile") from None
        except FileNotFoundError:
            raise ChangedMeanwhile(f"{self.place.shown} was removed by somebody else meanwhile") from None
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop what was not committed. Safe to call at any time."""
        if self._dir_fd < 0:
            return
        try:
            if self._temp is not None:
                os.unlink(self._temp, dir_fd=self._dir_fd)
        except OSError:
            pass  # somebody removed it: nothing is left to drop
        finally:
            os.close(self._dir_fd)
            self._dir_fd = -1


class Workspace:
    """The granted roots. Relative paths belong to `root`; absolute ones to the innermost root above them."""

    def __init__(
        self,
        root: PathLike,
        read_roots: Iterable[PathLike] = (),
        write_roots: Iterable[PathLike] = (),
        *,
        method: Method | None = None,
    ) -> None:
        self._method: Method = method or ("openat2" if has_openat2() else "walk")
        self._fds: dict[Root, int] = {}
        self._spellings: dict[str, Root] = {}  # every known spelling of a root
        weakref.finalize(self, _close_all, self._fds)
        self.root = self._grant(root, writable=True).path
        for extra in write_roots:
            self._grant(extra, writable=True)
        for extra in read_roots:
            self._grant(extra, writable=False)

    def _grant(self, given: PathLike, *, writable: bool) -> Root:
        spelled = os.path.abspath(os.path.expanduser(given))
        real = os.path.realpath(spelled)
        root = Root(Path(real), writable)
        if real in self._spellings:  # granted twice: the first grant stands
            self._spellings.setdefault(spelled, self._spellings[real])
            return self._spellings[real]
        try:
            self._fds[root] = os.open(real, _LOOK | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(f"workspace directory {spelled}: {error.strerror}") from None
        self._spellings[real] = root
        self._spellings.setdefault(spelled, root)
        return root

    def close(self) -> None:
        """Let go of the roots; the workspace is of no use afterwards."""
        _close_all(self._fds)

    def roots(self) -> tuple[Root, ...]:
        """All granted roots, the workspace itself first."""
        return tuple(self._fds)

    # Where a path lies, by its letters

    def locate(self, path: PathLike) -> Place:
        """The root and parts of a path. `..` is folded by its letters; OutsideWorkspace if no root holds it."""
        text = os.fspath(path)
        if "\0" in text:
            raise ToolError("a path cannot contain a NUL character")
        if text == "~" or text.startswith("~/"):
            text = os.path.expanduser(text)
        if len(text) > _LONGEST:
            raise ToolError(f"a path of {len(text):,} characters is too long; {_LONGEST:,} are possible")
        absolute = os.path.normpath(os.path.join(self.root, text) if text else self.root)
        if absolute.startswith("//"):  # POSIX keeps two leading slashes
            absolute = absolute[1:]
        holder = absolute
        while True:
            root = self._spellings.get(holder)
            if root is not None:
                break
            above = os.path.dirname(holder)
            if above == holder:
                raise self._outside(text)
            holder = above
        rest = absolute[len(holder) :].strip("/")
        parts = tuple(rest.split("/")) if rest else ()
        return Place(root, parts, self._shown(root.path, parts))

    def relative(self, path: PathLike) -> str:
        """The canonical spelling: relative to the workspace root, or absolute in another root."""
        return self.locate(path).shown

    def _shown(self, root: Path | str, parts: Sequence[str]) -> str:
        if str(root) == str(self.root):
            return "/".join(parts) or "."
        return os.path.join(root, *parts)

    def _outside(self, shown: str, via: str = "") -> OutsideWorkspace:
        more = [f"{r.path} ({'read and write' if r.writable else 'read only'})" for r in self.roots()[1:]]
        also = f"; also granted: {', '.join(more)}" if more else ""
        return OutsideWorkspace(
            f"{shown!r} is outside the workspace{via}. The workspace is {self.root}{also}. "
            "Use a path relative to the workspace."
        )

    # Opening

    def _root_fd(self, root: Root) -> int:
        fd = self._fds.get(root)
        if fd is None:
            raise ConfigError(f"the workspace {root.path} is closed")
        return fd

    def _revive(self, root: Root) -> bool:
        """Open a root again that was deleted and made anew behind our back; whether that helped."""
        fd = self._root_fd(root)
        if os.fstat(fd).st_nlink:
            return False
        try:  # its path was a real one: a link in it now was put there to lead somewhere else
            top = os.open("/", _LOOK | os.O_DIRECTORY)
            try:
                fresh = walk_open(top, root.path.parts[1:], _LOOK | os.O_DIRECTORY, follow=False)[0]
            finally:
                os.close(top)
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
        return self._root_fd(place.root), place.parts, str(place.root.path)

    def _walk(self, place: Place, flags: int, *, follow: bool) -> tuple[int, str, tuple[str, ...]]:
        try:
            return walk_open(
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

    def _link_refused(self, place: Place, met: LinkMet) -> LinkRefused:
        whole = os.path.relpath(os.path.join(self.root, place.shown), place.root.path)
        rest = whole[len(met.at) :]
        real = os.path.normpath(os.path.join(place.root.path, os.path.dirname(met.at), met.target)) + rest
        try:
            hint = f"Use {self.relative(real)!r} itself if that is what you mean."
        except ToolError:
            hint = "It points outside the workspace."
        return LinkRefused(f"{place.shown} is or leads through a link ({met.at} -> {met.target}). {hint}")

    def _open(self, place: Place, flags: int, *, follow: bool = True) -> int:
        if self._method == "openat2":
            resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if follow else RESOLVE_NO_SYMLINKS)
            for _ in range(2):
                try:
                    return openat2(self._root_fd(place.root), "/".join(place.parts) or ".", flags, 0, resolve)
                except FileNotFoundError:
                    if not self._revive(place.root):
                        raise
                except OSError as error:
                    # EXDEV: an absolute link, which may point back inside; ELOOP: links, or a magic one; EAGAIN:
                    # somebody renames without pause. The walk finds a way or the right words.
                    if error.errno not in (errno.EXDEV, errno.ELOOP, errno.EAGAIN):
                        raise
                    break
        try:
            return self._walk(place, flags, follow=follow)[0]
        except FileNotFoundError:
            if not self._revive(place.root):
                raise
            return self._walk(place, flags, follow=follow)[0]

    def open_read(self, path: PathLike, *, follow: bool = True) -> int:
        """A descriptor of a regular file, for reading. Anything else is refused without waiting or reading.

        Without `follow` links are refused, too: for a file that will be changed, so that no other is shown.
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

    def _must_be_regular(self, fd: int, place: Place) -> None:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise NotRegularFile(f"{place.shown} is {kind_of(mode)}, not a regular file")
        kernel = kernel_filesystem(fd)
        if kernel is not None:
            raise NotRegularFile(f"{place.shown} belongs to the kernel ({kernel}), not a regular file")

    def open_dir(self, path: PathLike) -> int:
        """A descriptor of a directory, for listing and as a base for further opening."""
        return self._open(self.locate(path), _DIRECTORY)

    def stat(self, path: PathLike) -> os.stat_result:
        """Stat of what the path leads to, links inside followed."""
        fd = self._open(self.locate(path), _LOOK)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def lstat(self, path: PathLike) -> os.stat_result:
        """Stat of the name itself: of the link, if it is one. Links above it are followed."""
        place = self.locate(path)
        if not place.parts:
            return self.stat(path)
        parent = self._open(Place(place.root, place.parts[:-1], place.shown), _LOOK | os.O_DIRECTORY)
        try:
            return os.lstat(place.parts[-1], dir_fd=parent)
        finally:
            os.close(parent)

    def exists(self, path: PathLike) -> bool:
        """Whether the path leads to something inside; a link out or a dangling one leads to nothing."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def real(self, path: PathLike) -> str:
        """The canonical spelling of the file that the path leads to, links inside followed."""
        fd, root, parts = self._walk(self.locate(path), _LOOK, follow=True)
        os.close(fd)
        return self._shown(root, parts)

    def name_of(self, fd: int) -> str | None:
        """The canonical spelling of an open file as it is named now; None where the system does not tell."""
        try:
            return self.relative(os.readlink(f"/proc/self/fd/{fd}"))
        except (OSError, ToolError):
            return None

    # Changing: never through a link

    def open_parent(self, path: PathLike) -> tuple[int, str, Place]:
        """The directory that holds a path to be changed, opened without following any link, and the last name."""
        place = self.locate(path)
        if not place.root.writable:
            raise ReadOnlyRoot(f"{place.shown} is in {place.root.path}, which is granted for reading only")
        if not place.parts:
            raise ToolError(f"{place.shown} is the root of a granted directory; it cannot be changed as a file")
        above = Place(place.root, place.parts[:-1], place.shown)
        return self._open(above, _LOOK | os.O_DIRECTORY, follow=False), place.parts[-1], place

    def missing_parents(self, path: PathLike) -> list[str]:
        """The directories above a path that do not exist yet, outermost first, in canonical spelling."""
        place = self.locate(path)
        missing: list[str] = []
        for n in range(len(place.parts) - 1, 0, -1):
            above = Place(place.root, place.parts[:n], self._shown(place.root.path, place.parts[:n]))
            try:
                fd = self._open(above, _LOOK | os.O_DIRECTORY, follow=False)
            except FileNotFoundError:
                missing.append(above.shown)
            else:
                os.close(fd)
                break
        return missing[::-1]

    def mkdir(self, path: PathLike, *, exist_ok: bool = False) -> None:
        """Make one directory; those above it must exist. A link in the way is refused."""
        parent, name, place = self.open_parent(path)
        try:
            os.mkdir(name, 0o777, dir_fd=parent)
        except FileExistsError:
            if not exist_ok:
                raise
            if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place.shown) from None
        finally:
            os.close(parent)

    def mkdirs(self, path: PathLike) -> list[str]:
        """Make a directory and those above it; the ones that were made, outermost first."""
        made: list[str] = []
        for each in [*self.missing_parents(path), self.relative(path)]:
            place = self.locate(each)
            if not place.parts:
                continue
            try:
                self.mkdir(each)
            except FileExistsError:
                self.mkdir(each, exist_ok=True)  # only to refuse what is no directory
            else:
                made.append(each)
        return made

    def stage(
        self,
        path: PathLike,
        data: bytes,
        mode: int | None = None,
        *,
        sync: bool = True,
        expect: Identity | None = None,
        override: bool = False,
    ) -> Staged:
        """Write new content beside a file, ready to replace it. Keeps the old file's mode unless one is given.

        `expect` is the identity the old file must still have. `sync` flushes the content to the disk. `override`
        replaces a write-protected file, too.
        """
        parent, name, place = self.open_parent(path)
        try:
            before = _entry(parent, name)
            self._must_be_replaceable(before, parent, name, place, override)
            if expect is not None and (before is None or identity(before) != expect):
                raise ChangedMeanwhile(f"{place.shown} was changed by somebody else; read it again")
            temp = f".{name[:40]}.{secrets.token_hex(6)}.tmp"  # 40 characters are at most 160 bytes of 255
            staged = Staged(parent, name, temp, place, before)
        except BaseException:
            os.close(parent)
            raise
        try:
            staged.identity = _write_new(parent, temp, data, mode, before, sync)
        except BaseException:
            staged.abort()
            raise
        return staged

    def _must_be_replaceable(
        self, st: os.stat_result | None, parent: int, name: str, place: Place, override: bool
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

    def write_atomic(
        self, path: PathLike, data: bytes, mode: int | None = None, *, sync: bool = True, expect: Identity | None = None
    ) -> Identity:
        """Replace or create a file in one step: readers see the old content or the new. Parents must exist."""
        staged = self.stage(path, data, mode, sync=sync, expect=expect)
        staged.commit()
        return staged.identity

    def chmod(self, path: PathLike, mode: int) -> None:
        """Set the permission bits of a regular file or directory; links are refused."""
        place = self.locate(path)
        if not place.root.writable:
            raise ReadOnlyRoot(f"{place.shown} is in {place.root.path}, which is granted for reading only")
        fd = self._open(place, _READ, follow=False)
        try:
            st = os.fstat(fd)
            if not (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)):
                raise NotRegularFile(f"{place.shown} is {kind_of(st.st_mode)}, not a regular file")
            os.fchmod(fd, mode & 0o7777)
        finally:
            os.close(fd)

    def unlink(self, path: PathLike) -> None:
        """Remove a name that is not a directory (a link itself, never its target)."""
        parent, name, _ = self.open_parent(path)
        try:
            os.unlink(name, dir_fd=parent)
        finally:
            os.close(parent)

    def rmdir(self, path: PathLike) -> None:
        """Remove an empty directory."""
        parent, name, _ = self.open_parent(path)
        try:
            os.rmdir(name, dir_fd=parent)
        finally:
            os.close(parent)

    def symlink(self, target: str, path: PathLike) -> None:
        """Make a link; its target is not judged, for following it is."""
        parent, name, _ = self.open_parent(path)
        try:
            os.symlink(target, name, dir_fd=parent)
        finally:
            os.close(parent)

    def rename(self, src: PathLike, dst: PathLike) -> None:
        """Rename inside the roots. FileExistsError rather than replacing anything."""
        src_parent, src_name, _ = self.open_parent(src)
        try:
            dst_parent, dst_name, _ = self.open_parent(dst)
            try:
                rename_new(src_name, dst_name, src_parent, dst_parent)
            finally:
                os.close(dst_parent)
        finally:
            os.close(src_parent)

    # Judging

    def sensitive(self, path: PathLike) -> bool:
        """Whether the path, or the file it leads to, probably holds secrets."""
        return self.why_sensitive(path) is not None

    def why_sensitive(self, path: PathLike) -> SensitiveName | None:
        """The table's entry for the path or for the file it leads to."""
        found = sensitive_by(self.relative(path))
        if found is not None:
            return found
        try:
            return sensitive_by(self.real(path))
        except OutsideWorkspace:  # is an OSError too
            raise
        except OSError:
            return None

    def why_protected(self, path: PathLike) -> ProtectedName | None:
        """The entry of the protected names that a change of this path would touch."""
        place = self.locate(path)
        inside = "/".join(place.parts)
        found = protected_by(inside) or (protected_below(inside) if place.parts else None)
        return found or (REPOSITORY if self._in_repository(place) else None)

    def _in_repository(self, place: Place) -> bool:
        """Whether a path is one of the settings of a repository that is not called .git."""
        for n, part in enumerate(place.parts):
            if part.casefold() in REPOSITORY_NAMES:
                beside = [self._shown(place.root.path, (*place.parts[:n], name)) for name in ("HEAD", "objects")]
                if all(map(self.exists, beside)):
                    return True
        return False

    def judge_path(self, path: PathLike, *, read: bool = True, write: bool = False) -> Judgement | None:
        """What is to be said of reading or changing a path; None if nothing. Never changes or opens content."""
        try:
            place = self.locate(path)
            if write:
                verdict = self._judge_write(place)
                if verdict is not None:
                    return verdict
            if read:
                secret = self.why_sensitive(path)
                if secret is not None:
                    return Judgement("ask", f"{place.shown} may hold secrets: {secret.reason}", RULE_SECRET)
        except OutsideWorkspace as error:
            return Judgement("deny", str(error), RULE_OUTSIDE)
        except ToolError as error:
            return Judgement("deny", str(error))
        return None

    def _judge_write(self, place: Place) -> Judgement | None:
        if not place.root.writable:
            reason = f"{place.shown} is in {place.root.path}, which is granted for reading only"
            return Judgement("deny", reason, RULE_READ_ONLY)
        protected = self.why_protected(place.path)
        if protected is not None:
            return Judgement("ask", f"{place.shown} touches {protected.name}: {protected.reason}", RULE_PROTECTED)
        try:
            st = self.lstat(place.path)
        except OutsideWorkspace:
            raise
        except OSError:
            return None
        if stat.S_ISREG(st.st_mode) and st.st_nlink > 1:
            reason = f"{place.shown} has {st.st_nlink} names (hard links); changing it here parts it from the others"
            return Judgement("ask", reason, RULE_LINKED)
        return None


def kind_of(mode: int) -> str:
    """What a stat mode is, in words."""
    for test, words in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    ):
        if test(mode):
            return words
    return "a regular file" if stat.S_ISREG(mode) else "something unknown"


def _entry(dir_fd: int, name: str) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return None


def _write_new(
    dir_fd: int, temp: str, data: bytes, mode: int | None, before: os.stat_result | None, sync: bool
) -> Identity:
    # A new file gets its mode from the umask, one that replaces another starts private and takes over its mode.
    start = 0o666 if before is None and mode is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temp, flags, start, dir_fd=dir_fd)
    try:
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
        keep = mode if mode is not None else stat.S_IMODE(before.st_mode) if before is not None else None
        if keep is not None:
            os.fchmod(fd, keep & 0o7777)
        if sync:
            os.fsync(fd)
        return identity(os.fstat(fd))
    finally:
        os.close(fd)


def _close_all(fds: dict[Root, int]) -> None:
    while fds:
        os.close(fds.popitem()[1])
