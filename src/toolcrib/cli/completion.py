"""Completion in bash, zsh and fish: the script for a shell, where it is installed, and the words that fit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import show
from .exit_codes import Usage
from .reader import CliCommand, CommandGroup, CommandParameter, parameters_of

VARIABLE = "_TOOLCRIB_COMPLETE"
"""Where this is set, the command prints the words that may stand in place of its last argument."""
_SCRIPTS = {
    "bash": f"""_toolcrib_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $({VARIABLE}=1 "$1" "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null) )
}}
complete -o default -F _toolcrib_completion toolcrib
""",
    "zsh": f"""(( $+functions[compdef] )) || {{ autoload -Uz compinit; compinit }}
_toolcrib_completion() {{
    local -a found
    found=("${{(@f)$({VARIABLE}=1 toolcrib "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    compadd -a found || _files
}}
compdef _toolcrib_completion toolcrib
""",
    "fish": f"""function __toolcrib_completion
    set -l words (commandline -opc) (commandline -ct)
    {VARIABLE}=1 toolcrib $words[2..] 2>/dev/null
end
complete --command toolcrib --arguments '(__toolcrib_completion)'
""",
}


def print_script() -> None:
    """Print the script for the person's shell. Raises Usage for a shell that has none."""
    print(_SCRIPTS[_shell()], end="")


def install() -> None:
    """Write the script for the person's shell, and the line that loads it. Raises Usage for a shell that has none."""
    shell, home = _shell(), Path.home()
    if shell == "fish":
        path = home / ".config/fish/completions/toolcrib.fish"
    else:
        path = home / f".local/share/toolcrib/completion.{shell}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SCRIPTS[shell], encoding="utf-8")
    show.say(f"Wrote {path}.")
    if shell != "fish":
        start, line = home / f".{shell}rc", f'source "{path}"'
        before = start.read_text(encoding="utf-8") if start.exists() else ""
        if line not in before.splitlines():
            start.write_text(f"{before}{'' if before[-1:] in ('', chr(10)) else chr(10)}{line}\n", encoding="utf-8")
            show.say(f"Added a line to {start} that loads it.")
    show.say("It works in new shells.")


def _shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _SCRIPTS:
        raise Usage(f"there is completion for {', '.join(_SCRIPTS)}; SHELL names {name or 'none'}")
    return name


def complete(root: CommandGroup, words: Sequence[str]) -> list[str]:
    """The words that may stand in place of the last one."""
    *given, start = words or [""]
    level: CliCommand | CommandGroup = root
    parameters = parameters_of(root)
    option: CommandParameter | None = None
    places = 0
    for word in given:
        if option is not None:  # this word is its value
            option = None
        elif word.startswith("-"):
            option = next((p for p in parameters if word in p.flags and p.kind is not bool), None)
        elif isinstance(level, CommandGroup) and word in level.summaries:
            level = level.load(word)
            parameters, places = parameters_of(level), 0
        else:
            places += 1
    return [word for word in _offered(level, parameters, option, places, start) if word.startswith(start)]


def _offered(
    level: CliCommand | CommandGroup,
    parameters: Sequence[CommandParameter],
    option: CommandParameter | None,
    places: int,
    start: str,
) -> Iterable[str]:
    if option is not None:
        return option.offers(start)
    if start.startswith("-"):
        return ["--help", *(flag for p in parameters for flag in p.flags if flag.startswith("--"))]
    if isinstance(level, CommandGroup):
        return level.summaries
    words = [p for p in parameters if not p.flags]
    place = words[min(places, len(words) - 1)] if words else None
    return () if place is None or (places >= len(words) and not place.repeated) else place.offers(start)
