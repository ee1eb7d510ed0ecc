"""Store the layers of commands, from the command's end to their apply, undo or discard, in files that survive a crash.

    held ──apply──▸ applying ──▸ applied ──undo──▸ undoing ──▸ undone ──(undo of the undo)──▸ applying …
      └──discard──▸ (gone)

`plan.json` holds the ops of the layer, `state.json` holds its state. The state is written before an apply or undo
begins. If the process is killed before the end, that state remains, and `recover` completes the work. A layer without a
state belongs to a command that still runs (its lock is held) or that never ended normally (the layer is removed).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Container, Generator, Sequence
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..boundary.own_files import lock_file
from ..boundary.remove_tree import remove_all
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError, ToolError, UnknownName
from ..core.text import lazy_regex
from ..record.state import StateFolder, private_folder
from .change_list import ChangeList, Op, changes_from_data, ops_from_data
from .command_layer import CommandLayer, LayerRoot
from .file_aliases import follow_aliases, read_aliases
from .layer_apply import Applier, ApplyConflict, Widened, steps
from .layer_staging import bring, copy_home, needs_staging, staging_folder

T = TypeVar("T")
log = logging.getLogger(__name__)

State = Literal["held", "applying", "applied", "undoing", "undone"]
HELD_SECONDS = 14 * 86400.0
"""How long changes that were not applied are stored."""
# Written beforehand: on a full disk a rename still works.
_STATE, _DONE, _BACK = "state.json", "state.done", "state.back"
_ID = lazy_regex(r"ch-[0-9a-f]+-[0-9a-f]{6}")


class LayerUnknown(UnknownName):
    """The layer does not exist, or it is in another state than required."""


class LayerBusy(ToolError):
    """Another process works on the layer at the moment."""


@dataclass(frozen=True, slots=True)
class HeldChanges:
    """A layer whose command has ended, as its state file describes it. `key` identifies the call that it came from."""

    id: str
    folder: Path
    state: State
    at: float
    call_id: str
    session_id: str | None
    command: str
    key: str
    roots: tuple[str, ...]
    conflicts: bool = False
    """Whether something that the command changed was also changed from outside."""
    told: str = ""
    """The text about the command's changes that the model reads."""
    approval_id: str | None = None
    origin: State = "held"
    """The state before the apply or undo that is in progress."""
    staged: bool = False
    """Whether there may be staging folders in the roots."""
    widened: tuple[Widened, ...] = field(default=(), repr=False)

    @property
    def layer_roots(self) -> tuple[LayerRoot, ...]:
        return tuple(LayerRoot(Path(path), self.folder / str(n)) for n, path in enumerate(self.roots))

    def changes(self) -> ChangeList:
        """Return the changes of the layer, without the ops. Raises LayerUnknown if the list is damaged or has
        another version."""
        return self._read("changes.json", changes_from_data)

    def ops(self) -> list[Op]:
        """Return the ops of an apply. Raises LayerUnknown if the list is damaged or has another version."""
        return self._read("plan.json", ops_from_data)

    def place_of(self, op: Op) -> str:
        """Return the absolute path of an op."""
        return os.path.join(self.roots[op.root], op.path)

    def _read(self, name: str, make: Callable[[Any], T]) -> T:
        try:
            return make(json.loads((self.folder / name).read_text()))
        except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
            raise LayerUnknown(f"the list of changes {self.id} cannot be read: {error}") from None


class LayerStore:
    """The layers of one workspace. Several processes may use it at once."""

    def __init__(self, folder: StateFolder) -> None:
        self.path = folder.path / "layers"
        self.aliases = self.path / "same.jsonl"  # which new files replace the files that an undo wrote again

    # --- before and after a command

    def begin(self, roots: Sequence[Path]) -> CommandLayer:
        """Create a layer for a command, with its lock held."""
        private_folder(self.path)
        return CommandLayer.create(self.path, roots)

    def hold(
        self,
        layer: CommandLayer,
        found: ChangeList,
        *,
        call_id: str,
        session_id: str | None,
        command: str,
        key: str = "",
        told: str = "",
    ) -> HeldChanges:
        """Store a command's changes until they are applied or discarded. Release the lock."""
        held = HeldChanges(
            layer.id, layer.folder, "held", time.time(), call_id, session_id, command, key,
            tuple(str(root.path) for root in layer.roots), bool(found.conflicts), told,
        )  # fmt: skip
        _write(layer.folder / "changes.json", {"roots": found.roots, "changes": found.changes})
        _write(layer.folder / "plan.json", found.ops)
        self._save(held)
        layer.unlock()
        return held

    # --- queries

    def get(self, name: str) -> HeldChanges:
        """Return a layer by its id. Raises LayerUnknown if it does not exist."""
        if not _ID.fullmatch(name):
            raise LayerUnknown(f"{name!r} is not an id of changes; ids look like ch-19a5c0e7b21-3fa9c1")
        held = self._load(self.path / name)
        if held is None:
            waiting = ", ".join(each.id for each in self.all("held")) or "none"
            raise LayerUnknown(f"there are no changes {name!r} (waiting: {waiting})")
        return held

    def all(self, *states: State) -> list[HeldChanges]:
        """Return the layers in these states, oldest first."""
        found: list[HeldChanges] = []
        for name in sorted(_names(self.path)):
            held = self._load(self.path / name)
            if held is not None and (not states or held.state in states):
                found.append(held)
        return found

    def note_approval(self, held: HeldChanges, approval_id: str | None) -> None:
        """Remember which approval request belongs to the layer, unless a person applied or discarded it meanwhile."""
        with contextlib.suppress(LayerUnknown, LayerBusy), self._locked(held.id) as now:
            self._save(replace(now, approval_id=approval_id))

    # --- changes

    def apply(self, name: str) -> HeldChanges:
        """Move the layer's content into the workspace, all or nothing. Raises ApplyConflict, LayerUnknown or
        LayerBusy."""
        return self._turn(name, "held", "applying", "applied")

    def undo(self, name: str) -> HeldChanges:
        """Move the earlier content back."""
        return self._turn(name, "applied", "undoing", "undone")

    def redo(self, name: str) -> HeldChanges:
        """Apply the layer once more."""
        return self._turn(name, "undone", "applying", "applied")

    def conflicts(self, name: str, newer: Container[str] = ()) -> list[str]:
        """Return a line for each conflict that prevents the next undo or redo of a layer. Paths in `newer` are passed
        over."""
        held = self.get(name)
        if held.state not in ("applied", "undone"):
            return [f"changes {name} are {held.state}"]
        back = held.state == "applied"
        with contextlib.closing(Applier(held.layer_roots)) as applier:
            ops = [op for op in held.ops() if held.place_of(op) not in newer]
            return applier.conflicts(steps(self._followed(held, ops, back), back=back), strict=False)

    def discard(self, name: str) -> HeldChanges:
        """Remove a layer that was not applied. Raises LayerUnknown if its state does not allow that."""
        with self._locked(name) as held:
            if held.state not in ("held", "undone"):
                raise LayerUnknown(f"changes {name} are {held.state} and cannot be discarded; undo takes them back")
            self._unstage(held)
            (held.folder / _STATE).unlink()  # first: the lock is a file in this folder, which may go before the rest
            remove_all(held.folder)
        return held

    def _turn(self, name: str, state: State, during: State, then: State) -> HeldChanges:
        with self._locked(name) as held:
            if held.state != state:
                raise LayerUnknown(f"changes {name} are {held.state}, not {state}")
            if state == "held" and held.conflicts:
                found = held.changes()
                raise ApplyConflict([f"{found.shown_path(c)}: {c.conflict}" for c in found.conflicts])
            back = during == "undoing"
            known = held.ops()
            ops = self._followed(held, known, back)
            with contextlib.closing(Applier(held.layer_roots)) as applier:
                conflicts = applier.conflicts(steps(ops, back=back), strict=state == "held")
                if conflicts:
                    raise ApplyConflict(conflicts)
                widened = tuple(applier.narrow(steps(ops, back=back)))
            held = replace(held, widened=widened, origin=state, staged=needs_staging(held.layer_roots))
            if held.staged:
                self._save(held)
                try:
                    ops = bring(held.layer_roots, name, ops, back=back)
                except BaseException:  # what fills the workspace's disk does not stay there
                    self._unstage(replace(held, widened=()))
                    raise
            if ops is not known:
                _write(held.folder / "plan.json", ops)
            self._save(held, _BACK)
            self._save(_done(held, then), _DONE)
            self._save(replace(held, state=during))
            try:
                self._move(held, ops, back)
            except BaseException:
                self._roll_back(held, ops, back)
                raise
            return self._finish(held, ops, then)

    def _move(self, held: HeldChanges, ops: list[Op], back: bool) -> None:
        with contextlib.closing(Applier(held.layer_roots, _places(held))) as applier:
            applier.widen(held.widened)
            for step in steps(ops, back=back):
                applier.take(step)
            applier.restore(held.widened, ops, back=back)

    def _roll_back(self, held: HeldChanges, ops: list[Op], back: bool) -> None:
        """Undo the steps that were taken. If even that fails, the state says what was begun, for `recover`."""
        with contextlib.closing(Applier(held.layer_roots, _places(held))) as applier:
            taken = [applier.is_taken(step) for step in steps(ops, back=back)]
            for step, was_taken in reversed([*zip(steps(ops, back=not back), taken, strict=True)]):
                if was_taken:
                    applier.take(step)
            applier.restore(held.widened, ops, back=not back)
            ops = applier.looked_at_again(ops)
        try:
            _write(held.folder / "plan.json", ops)
            self._unstage(replace(held, state=held.origin))
        except OSError:  # with the old plan it conflicts if it is applied again
            os.replace(held.folder / _BACK, held.folder / _STATE)

    def _finish(self, held: HeldChanges, ops: list[Op], then: State) -> HeldChanges:
        if held.staged:
            copy_home(held.layer_roots, held.id, ops, back=then == "undone")
        os.replace(held.folder / _DONE, held.folder / _STATE)
        with contextlib.suppress(OSError):  # `recover` does it later
            return self._unstage(_done(held, then))
        return _done(held, then)

    def _unstage(self, held: HeldChanges) -> HeldChanges:
        for root in held.layer_roots if held.staged else ():
            remove_all(staging_folder(root, held.id))
        done = replace(held, staged=False)
        self._save(done)
        return done

    # --- after a crash

    def recover(self, *, newborn: float = 10.0) -> list[str]:
        """Complete the work that was begun, and remove layers without a command. Return a line for each. Layers in
        use are skipped, and so are layers younger than `newborn` seconds, because their maker may not have locked
        them yet."""
        lines: list[str] = []
        for name in _names(self.path):
            folder = self.path / name
            held = self._load(folder)
            if held is not None and held.state not in ("applying", "undoing") and not held.staged:
                continue
            if held is None and 0 <= time.time() - int(name.split("-")[1], 16) / 1000 < newborn:
                continue
            try:
                lock = lock_file(folder / "lock", wait=False)
            except OSError:
                continue
            if lock is None:
                continue
            try:
                lines += self._recover(folder)
            except (OSError, ToolcribError) as error:
                log.warning("changes %s could not be completed: %s", name, error)
                lines.append(f"changes {name} were cut off and could not be completed: {error}")
            finally:
                os.close(lock)
        return lines

    def _recover(self, folder: Path) -> list[str]:
        held = self._load(folder)
        if held is None:
            remove_all(folder)
            return []
        if held.state not in ("applying", "undoing"):
            self._unstage(held)
            return []
        back = held.state == "undoing"
        ops = held.ops()
        self._save(_done(held, "undone" if back else "applied"), _DONE)
        try:
            self._move(held, ops, back)
        except (OSError, ToolcribError) as error:  # another program changed something meanwhile
            self._roll_back(held, ops, back)
            return [f"changes {held.id} were cut off and are {held.origin} again: {error}"]
        done = self._finish(held, ops, "undone" if back else "applied")
        return [f"completed what was cut off: changes {held.id} of call {held.call_id} are {done.state}"]

    def prune(self, max_age: float = HELD_SECONDS) -> None:
        """Remove changes that were not applied within this time."""
        for held in self.all("held"):
            if time.time() - held.at > max_age:
                with contextlib.suppress(ToolcribError, OSError):
                    self.discard(held.id)

    # --- helpers

    def _followed(self, held: HeldChanges, ops: list[Op], back: bool) -> list[Op]:
        """Return the ops with the new files in place of files that an undo of an edit wrote again."""
        known = read_aliases(self.aliases)
        return [follow_aliases(known, held.roots[op.root], op, back=back) for op in ops] if known else ops

    @contextlib.contextmanager
    def _locked(self, name: str) -> Generator[HeldChanges]:
        self.get(name)
        try:
            lock = lock_file(self.path / name / "lock", wait=False)
        except FileNotFoundError:  # it has just been removed
            raise LayerUnknown(f"there are no changes {name!r} any more") from None
        if lock is None:
            raise LayerBusy(f"another process works on changes {name} just now; try again")
        try:
            yield self.get(name)
        finally:
            os.close(lock)

    def _load(self, folder: Path) -> HeldChanges | None:
        try:
            data = json.loads((folder / _STATE).read_text())
        except (OSError, ValueError):
            return None
        widened = tuple((root, path, mode) for root, path, mode in data.pop("widened"))
        return HeldChanges(folder.name, folder, roots=tuple(data.pop("roots")), widened=widened, **data)

    def _save(self, held: HeldChanges, name: str = _STATE) -> None:
        names = [each.name for each in fields(held) if each.name not in ("id", "folder")]
        _write(held.folder / name, {each: getattr(held, each) for each in names})


def _done(held: HeldChanges, state: State) -> HeldChanges:
    return replace(held, state=state, widened=())


def _places(held: HeldChanges) -> list[Path]:
    """Return the folder that is used for each root during the work: the layer, or its staging folder on the root's
    file system."""
    if held.staged:
        return [staging_folder(root, held.id) for root in held.layer_roots]
    return [root.upper for root in held.layer_roots]


def _names(path: Path) -> list[str]:
    try:
        return [name for name in os.listdir(path) if _ID.fullmatch(name)]
    except FileNotFoundError:
        return []


def _write(path: Path, data: Any) -> None:
    """Replace a file in one step. The file is not flushed, like the journal's list: a killed process loses nothing."""
    temp = path.with_suffix(".tmp")
    with open(temp, "w", encoding="utf-8") as file:
        file.write(json.dumps(data, separators=(",", ":")))  # `dump` is many times slower
    os.replace(temp, path)
