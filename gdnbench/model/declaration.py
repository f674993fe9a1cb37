"""The parts of a declaration: names, params, input profiles, hints for `explain`, and the contest's requirements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gdnbench.errors import DeclarationError, ParamError

ParamValue = int | str


@dataclass(frozen=True)
class Param:
    """A compile-time constant that a user may set.

    `default` is one of `choices`, every value that the kernel supports, else DeclarationError is raised; `doc`
    describes it in a few words.
    """

    default: ParamValue
    choices: tuple[ParamValue, ...]
    doc: str = ""

    def __post_init__(self) -> None:
        if self.default not in self.choices:
            raise DeclarationError(f"default {self.default!r} is not among the choices {self.choices}")

    def parse(self, name: str, value: ParamValue) -> ParamValue:
        """The choice that `value`, perhaps text from a command line, stands for; ParamError if there is none."""
        for choice in self.choices:
            if str(choice) == str(value):
                return choice
        allowed = ", ".join(map(str, self.choices))
        raise ParamError(f"{name}={value} is not a value of {name}", f"it takes {allowed}")


class Params(Mapping[str, ParamValue]):
    """The values of a kernel's params, read as `p.WARPS` or `p["WARPS"]`; immutable and hashable."""

    _values: dict[str, ParamValue]

    def __init__(self, values: Mapping[str, ParamValue] | None = None) -> None:
        self.__dict__["_values"] = dict(values or {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: params do not change")

    def __getitem__(self, name: str) -> ParamValue:
        return self._values[name]

    def __getattr__(self, name: str) -> int:
        # Typed as int, since grids and blocks compute with it; a text-valued param is only compared.
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no param {name}; there are {sorted(self.__dict__.get('_values', ()))}")
        return self._values[name]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __repr__(self) -> str:
        return f"Params({self})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._values.items())


EVERY = "all"
"""The word for every kernel, or profile, on the command line."""

MOST_CHARACTERS = 80
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def check_name(name: str) -> None:
    """Raises DeclarationError for a name that is not valid."""
    if name == EVERY:
        raise DeclarationError(f"the name {EVERY!r} means all that there are; choose another")
    if len(name) > MOST_CHARACTERS:
        told = f"the name {name[:40]!r}… has {len(name)} characters, and {MOST_CHARACTERS} are the most"
        raise DeclarationError(told, "choose a shorter one")
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            f"the name {name[:80]!r} is not made of letters, digits and . _ + -, a letter or digit first"
        )


CAUSES = (
    "too_few_warps",
    "many_launches",
    "latency",
    "idle_sms",
    "uneven_sms",
    "limited_occupancy",
    "bandwidth",
    "compute",
    "launch_bound",
    "spilling",
    "uncoalesced",
    "bank_conflicts",
    "barriers",
    "narrow_loads",
    "lowered_clock",
)
"""The names of the rules in `gdnbench/diagnose/gather.py` to which a hint may belong."""

_LONGEST = 300  # characters: four lines of a terminal


@dataclass(frozen=True)
class Hint:
    """One or two sentences that `explain` prints below its findings on an op's kernels, in one line of text.

    `causes` names the rules of `CAUSES` whose findings the hint belongs to; without any it belongs to every finding.
    DeclarationError is raised for an unknown cause or an unfit text.
    """

    text: str
    causes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        causes = (self.causes,) if isinstance(self.causes, str) else tuple(self.causes)
        object.__setattr__(self, "causes", causes)
        if not self.text.strip() or len(self.text) > _LONGEST or not self.text.isprintable():
            raise DeclarationError(f"the hint {self.text[:40]!r} is no line of 1 to {_LONGEST} characters")
        if unknown := [cause for cause in causes if cause not in CAUSES]:
            raise DeclarationError(f"explain has no rule {', '.join(map(str, unknown))}: {', '.join(CAUSES)}")

    def is_about(self, cause: str) -> bool:
        """Whether the hint belongs to the findings of a rule."""
        return not self.causes or cause in self.causes


DEFAULT_INPUTS = "typical"
"""The name of the first profile in runs stored before ops had profiles; it is still accepted."""
CAPTURED = "file:"
"""The prefix of the profile of captured inputs; the name of a file and a part of its hash follow."""

_LONGEST_STEM = 40
_HASH_DIGITS = 8


def captured_profile(stem: str, sha256: str) -> str:
    """The profile of the inputs in a file, `file:layer-3-1f0c2d3e`.

    `stem` is the file's name without its ending, in which characters that no workload's name may have become hyphens.
    `sha256` is the hash of its content, in hex, which tells files of one name apart.
    """
    return f"{CAPTURED}{re.sub(r'[^A-Za-z0-9.]+', '-', stem)[:_LONGEST_STEM]}-{sha256[:_HASH_DIGITS]}"


def is_captured(profile: str) -> bool:
    """Whether a profile is that of captured inputs, which no op declares."""
    return profile.startswith(CAPTURED)


@dataclass(frozen=True)
class Profile:
    """A named distribution of inputs, which the op's `make_inputs` draws from by that name; `doc` is a line on it.

    A scenario tests numbers; a profile is also timed, and is part of the identity of what is measured. Each run
    compares the `extreme` profiles, between which the time of a kernel that depends on its inputs differs most.
    DeclarationError is raised for a name that no option or file can hold.
    """

    name: str
    doc: str
    extreme: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if "_" in self.name or "/" in self.name:
            raise DeclarationError(f"the profile {self.name!r}: a name is made of letters, digits and hyphens")


CONTEST_TOLERANCE = 1e-2
"""Absolute and relative error; an element is wrong where both are larger, and none of GDN's outputs may have one."""

CONTEST_SUITE = "contest"
"""The suite of contest workloads; a weight counts the lines of the contest's data set with the workload."""


def contest_baseline(op: str) -> str:
    """The name of the FlashInfer kernel over which the contest measures speedups."""
    return f"{op}-flashinfer"
