"""Find the known name that was probably meant by a mistyped one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

_BREAK = r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])"
_SHORTER = 3  # how many wrong letters a beginning or a short form counts as: more than any real slip


def near(given: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known names that are nearest to one that was given; none if no name is near.

    Near are, the nearest first: names with few wrong, missing, added or swapped letters in each word, or in the whole;
    with words that are beginnings or short forms of each other; with the same words in another order; and names that
    have all words of the other.
    """
    words = _words(given[:100])
    ranked = [(rank, name) for name in known if (rank := _rank(words, _words(name))) is not None]
    best = min((rank for rank, _ in ranked), default=None)
    return [name for rank, name in ranked if rank == best][:most]


def unknown(given: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the names that are not among the known ones, as a message says them. A name with `*` may fit later."""
    said: list[str] = []
    for name in given:
        if "*" not in name and name not in known:
            said += [f"{name!r}{f' (did you mean {meant[0]}?)' if (meant := near(name, known)) else ''}"]
    return said


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.split(_BREAK, name) if word]


def _rank(given: list[str], known: list[str]) -> tuple[int, int] | None:
    if len(given) != len(known):
        wrong = _wrong("".join(given), "".join(known), _is_beginning)
        few, many = sorted((given, known), key=len)
        whole = bool(few) and all(len(word) > 2 and word in many for word in few)
        return (0, wrong) if wrong is not None else (2, 0) if whole else None
    for kind, pair in enumerate(((given, known), (sorted(given), sorted(known)))):
        letters = [_wrong(*words, _is_short) for words in zip(*pair, strict=True)]
        if None not in letters:
            return kind, sum(filter(None, letters))
    return None


def _wrong(given: str, known: str, is_shorter: Callable[[str, str], bool]) -> int | None:
    """Return how many letters differ; None if these are too many for words of this length."""
    from rapidfuzz.distance import OSA

    length = min(len(given), len(known))
    other = len(given) == len(known) == 3 and given[0] != known[0] and sorted(given) != sorted(known)  # `get`, `set`
    most = 0 if other or length < 3 else 1 if length < 7 else 2
    letters = OSA.distance(given, known, score_cutoff=most)
    return letters if letters <= most else _SHORTER if length > 2 and is_shorter(given, known) else None


def _is_beginning(given: str, known: str) -> bool:
    """`auto` and `autonomous`, `execute` and `exec`; two thirds are enough: `approve` and `approvals`."""
    short, long = sorted((given, known), key=len)
    same = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    return (same == len(short) and (short is given or same > 3)) or same * 3 >= len(long) * 2  # `login` is not `log`


def _is_short(given: str, known: str) -> bool:
    """The same, and `cmd` for `command`."""
    letters = iter(known)
    ends = (given[0], given[-1]) == (known[0], known[-1])
    return _is_beginning(given, known) or (ends and all(letter in letters for letter in given))
