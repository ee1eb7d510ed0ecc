"""Agent Skills: folders with a `SKILL.md`. The model sees their names and descriptions, and reads the text by a tool.

Format: agentskills.io. Skills of the workspace count only if the person trusts their SKILL.md (`toolcrib trust`).
Scripts of a skill run through `exec`, in the sandbox, as any command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field

from ..boundary.programs import names_followed, within_any
from ..boundary.read_tree import folders_below
from ..boundary.real_path import real_path
from ..config import TextToTrust, TrustStore
from ..config.files import ConfigFile
from ..core.dataclass import dataclass
from ..core.output import ToolOutput
from ..core.text import clip, lazy_regex, one_line
from ..core.tool import Tool, ToolCategory
from .prompt import instruction_files, read_text, unread_instructions

if TYPE_CHECKING:
    from ..sources.plugins import Plugin

FOLDERS = (".agents/skills", ".claude/skills")
"""Below the workspace, and below the home directory."""
FILE = "SKILL.md"
MAX_SKILLS = 200
MAX_FILES = 50
"""Files of a skill that are named to the model and to the person."""
MAX_NAME = 64
MAX_DESCRIPTION = 1024
_MAX_HEAD = 64 << 10
_NAME = lazy_regex(r"[a-z0-9]+(-[a-z0-9]+)*")
_ENTRY = lazy_regex(r"[^\s,()]+(?:\([^)]*\)?)?")
_FRONT = lazy_regex(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill. `problem` says why it is not offered; empty if it is. `allowed` are the tools it may use; empty: all."""

    name: str
    description: str
    folder: Path
    body: str = ""
    allowed: tuple[str, ...] = ()
    problem: str = ""


def find_skills(
    workspace: Path,
    more: Iterable[Path] = (),
    home: Path | None = None,
    plugins: Iterable[Path] = (),
    writable: Iterable[str] = (),
) -> list[Skill]:
    """Return the skills of plugins (`plugins` are their folders), of the home directory, of `more`, and of the
    workspace: a later one replaces an earlier one of the same name. Those in the workspace and in the folders that are
    `writable` for tools need trust."""
    found: dict[str, Skill] = {}
    for folder in plugins:
        for skill in _in_folder(folder, trusted=False):
            found[skill.name] = skill
    for folder, trusted in _folders(workspace, more, home, writable):
        for skill in _in_folder(folder, trusted=trusted):
            if trusted or not skill.problem or skill.name not in found:
                found[skill.name] = skill
    return sorted(found.values(), key=lambda skill: skill.name)[:MAX_SKILLS]


def _folders(
    workspace: Path, more: Iterable[Path], home: Path | None = None, writable: Iterable[str] = ()
) -> list[tuple[Path, bool]]:
    """Return the folders with skills of the person, then those of the workspace, and whether they count without trust:
    not where tools may write, which is everywhere in a workspace that is the home directory."""
    home = home or Path.home()
    roots = [real_path(root) for root in (workspace, *writable)]
    own = [home / name for name in FOLDERS] + list(more)
    own += [workspace / name for name in FOLDERS if workspace / name not in own]
    return [(each, not _leads_through(each, roots)) for each in own]


def _leads_through(folder: Path, roots: Sequence[str]) -> bool:
    """Return whether a folder, or a link on the way to it, lies in these folders."""
    try:
        return any(within_any(name, roots) for name in names_followed(os.path.abspath(folder)))
    except OSError:
        return True


def skills_prompt(skills: Sequence[Skill]) -> str:
    """Return the part of the system prompt that lists the skills; empty if there are none to offer."""
    lines = [f"- {skill.name}: {skill.description}" for skill in skills if not skill.problem]
    if not lines:
        return ""
    head = "Skills: instructions for certain tasks. Before such a task, read the skill with `read_skill`."
    return "\n".join([head, *lines])


class ReadSkillTool(Tool):
    """Read the instructions of a skill. The skills and what they are for are listed in your instructions."""

    name = "read_skill"
    category = ToolCategory.FILESYSTEM_READ
    open_world = False
    title = "Read a skill"

    def __init__(self, skills: Sequence[Skill]) -> None:
        super().__init__()
        self._skills = {skill.name: skill for skill in skills}

    async def execute(
        self, name: Annotated[str, Field(max_length=MAX_NAME, description="The skill's name.")]
    ) -> ToolOutput:
        """Return the text of the skill."""
        skill = self._skills.get(name)
        if skill is None or skill.problem:
            known = ", ".join(each.name for each in self._skills.values() if not each.problem)
            why = f"it cannot be used: {skill.problem}" if skill else "there is no such skill"
            return ToolOutput.error(f"{name!r}: {why}; known are: {known or 'none'}", "not_found")
        allowed = ""
        if skill.allowed:
            allowed = f"\nUntil the person's next message, only these tools run: {', '.join(skill.allowed)}."
        files = ", ".join(files_of(skill.folder))
        return ToolOutput(f"Folder of the skill: {skill.folder}\nFiles: {files}{allowed}\n\n{skill.body}")


def plugin_skills(plugins: Iterable[Plugin]) -> list[Path]:
    """Return the folders with the skills of Agent Plugins."""
    return [each.package.skills for each in plugins if each.package is not None and each.state == "loaded"]


def texts_to_trust(
    workspace: Path, plugins: Iterable[Path] = (), more: Iterable[Path] = (), writable: Iterable[str] = ()
) -> list[TextToTrust]:
    """Return the AGENTS.md files and the skills of a workspace and of other folders where tools may write, and the
    skills of plugins (by their folders): their texts count only if a person trusts them."""
    found = [TextToTrust(file, "the model follows these instructions") for file in instruction_files(workspace)]
    own = [folder for folder, trusted in _folders(workspace, more, writable=writable) if not trusted]
    for place in (*own, *plugins):
        for folder, file in _skill_files(place):
            skill = _skill(folder, file, trusted=True)
            if not skill.problem:
                others = tuple(each for each in files_of(folder) if each != FILE)
                found.append(TextToTrust(file, f"the model may use the skill {skill.name}", others))
    return found


def left_out(
    workspace: Path,
    skills: Iterable[Skill],
    plugins: Iterable[Path] = (),
    more: Iterable[Path] = (),
    writable: Iterable[str] = (),
) -> list[str]:
    """Return which texts of a workspace the model does not follow, or is not offered, and why; a line each."""
    store = TrustStore()
    texts = [
        text for text in texts_to_trust(workspace, plugins, more, writable) if store.status(text.file) != "trusted"
    ]
    notes = sum(text.file.path.name == "AGENTS.md" for text in texts)
    waiting = len(texts) - notes
    counts = f"{notes} files AGENTS.md count" if notes > 1 else "AGENTS.md counts"
    parts = [f"{counts} as information"] if notes else []
    parts += [f"{waiting} skill{'s are' if waiting > 1 else ' is'} not offered"] if waiting else []
    lines = [f"Not trusted: {', '.join(parts)}. `toolcrib trust` shows and trusts them."] if parts else []
    wrong = [skill for skill in skills if skill.problem and "toolcrib trust" not in skill.problem]
    skipped = [f"The skill {skill.name} is not offered: {skill.problem}" for skill in wrong]
    return [*lines, *unread_instructions(workspace), *skipped]


def files_of(folder: Path) -> list[str]:
    """Return the files of a skill, at most MAX_FILES; the last entry says how many more there are."""
    found = sorted(
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in folders_below(folder)
        for name in names
    )
    more = len(found) - MAX_FILES
    return [*found[:MAX_FILES], f"and {more} more"] if more > 0 else found


def _in_folder(folder: Path, *, trusted: bool) -> Iterable[Skill]:
    for entry, file in _skill_files(folder):
        yield _skill(entry, file, trusted=trusted)


def _skill_files(folder: Path) -> Iterable[tuple[Path, ConfigFile]]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return
    for entry in entries[:MAX_SKILLS]:
        file = read_text(entry / FILE)
        if file is not None:
            yield entry, file


def _skill(folder: Path, file: ConfigFile, *, trusted: bool) -> Skill:
    front = _FRONT.match(file.text)
    long = front is not None and len(front.group(1)) > _MAX_HEAD
    fields = _fields(front.group(1)) if front and not long else {}
    name, description = str(fields.get("name") or ""), one_line(str(fields.get("description") or ""))
    allowed = fields.get("allowed-tools") or ""
    listed = cast("list[str]", allowed) if isinstance(allowed, list) else _ENTRY.findall(str(allowed).strip("[] "))
    tools = tuple(map(_plain, listed))
    problem = ""
    if front is None:
        problem = f"{file.path} does not begin with `---`, fields and `---`"
    elif long:
        problem = f"{file.path} has a head of more than {_MAX_HEAD:,} characters"
    elif not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        problem = f"{file.path}: `name` should be lower-case words joined by -, at most {MAX_NAME} characters"
    elif not description or len(description) > MAX_DESCRIPTION:
        problem = f"{file.path}: `description` should have 1 to {MAX_DESCRIPTION} characters"
    elif not trusted and TrustStore().status(file) != "trusted":
        problem = f"{file.path} is not trusted: `toolcrib trust` shows and trusts it"
    return Skill(
        name if _NAME.fullmatch(name) else clip(folder.name, MAX_NAME), description, folder,
        front.group(2).strip() if front else "", tuple(tool for tool in tools if tool), problem,
    )  # fmt: skip


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a SKILL.md's head: `name: value` lines, folded lines and lists, the part of YAML in use."""
    fields: dict[str, Any] = {}
    key = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t-" and key:
            item = line.strip()
            if item.startswith("- "):
                if not isinstance(fields[key], list):
                    fields[key] = []
                fields[key].append(_plain(item[2:]))
            elif isinstance(fields[key], str):
                fields[key] = f"{fields[key]} {_plain(item)}".strip()
            continue
        key, _, value = line.partition(":")
        key, value = key.strip(), value.strip()
        fields[key] = "" if value in (">", "|", ">-", "|-") else _plain(value)
    return fields


def _plain(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'" else value
