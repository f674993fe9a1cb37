"""The words of a command line: which of them travel, and the options among them that only this machine understands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class GivenOption:
    """An option as it was typed, or an argument.

    Attributes:
        name: the parameter's name; empty for an argument, and for flags that were typed together, `-qy`.
        words: as they were typed.
        value: behind the option; None for a flag.
    """

    name: str
    words: tuple[str, ...]
    value: str | None = None


def read_options(words: Sequence[str], spellings: Mapping[str, tuple[str, bool]]) -> Iterator[GivenOption]:
    """Takes a command line apart.

    Args:
        words: behind the verb.
        spellings: of each option, `--shape` or `-k`, the parameter's name and whether a value follows.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield GivenOption("", ("--", *rest))
            return
        spelling, equals, value = word.partition("=") if word.startswith("--") else (word[:2], "", "")
        name, takes_value = spellings.get(spelling, ("", False))
        if not word.startswith("-") or not name:
            yield GivenOption("", (word,))
        elif equals:
            yield GivenOption(name, (word,), value)
        elif takes_value and not word.startswith("--") and len(word) > 2:  # -kNAME
            yield GivenOption(name, (word,), word[2:])
        elif takes_value and rest:
            value = rest.pop(0)
            yield GivenOption(name, (word, value), value)
        else:
            yield GivenOption(name if len(word) == 2 or word.startswith("--") else "", (word,))


def words_that_travel(options: Sequence[GivenOption], left_out: Collection[str]) -> list[str]:
    """The words of a command line without some of its parameters."""
    return [word for option in options if option.name not in left_out for word in option.words]
