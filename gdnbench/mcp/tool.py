"""A tool: its parameters, description, digest, and command, in which no value leads outside the project."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.origin import EVIDENCE, LEDGER, PROFILES, RESULTS
from gdnbench.render.digest import Digest
from gdnbench.store.find import PUBLISHED_FOLDER, name_runs

FOLDERS = (RESULTS, PROFILES, Path("kernels"))
"""The folders of files that a parameter may name, below the project's, which is the working folder."""

_LONGEST = 500  # characters
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SEPARATOR = re.compile(r"[,\s]+")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./~^@{}-]*")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_GIT = "git:"


class Words:
    """The words of one command, in the order given; values are checked before they become words."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._options: list[str] = []
        self._arguments: list[str] = []

    @property
    def line(self) -> list[str]:
        """The words behind `gdnbench`: options as one word each, then arguments behind `--`, which ends the options."""
        return [*self._verb.split(), *self._options, *(("--", *self._arguments) if self._arguments else ())]

    def flag(self, name: str, *, wanted: bool = True) -> Words:
        """Adds an option without a value."""
        if wanted:
            self._options.append(f"--{name}")
        return self

    def option(self, name: str, value: str | float) -> Words:
        """Adds an option unless its value is empty or zero, the command's default; raises UsageError if refused."""
        if value:
            checked = check_name(value, name) if isinstance(value, str) else str(value)
            self._options.append(f"--{name}={checked}")
        return self

    def text(self, name: str, value: str) -> Words:
        """Adds an option with a checked sentence, unless it is empty."""
        if value:
            self._options.append(f"--{name}={value}")
        return self

    def label(self, value: str) -> Words:
        """Adds a part of a run's name; raises UsageError unless it has only letters, digits, '.', '-' and '_'."""
        if value and not _LABEL.fullmatch(value):
            raise UsageError("label: letters, digits, '.', '-' and '_' alone may be in it", 'as in label="wider-loads"')
        return self.option("label", value)

    def path(self, name: str, value: str) -> Words:
        """Adds an option with a file of the project; raises UsageError for any other file."""
        if value:
            self._options.append(f"--{name}={check_path(value, name)}")
        return self

    def revision(self, name: str, value: str) -> Words:
        """Adds an option with a checked revision."""
        self._options.append(f"--{name}={value}")
        return self

    def arguments(self, values: Iterable[str]) -> Words:
        """Adds checked arguments."""
        self._arguments += values
        return self


def split_names(text: str, what: str) -> list[str]:
    """Splits names at commas or spaces; raises UsageError for a refused one."""
    return [check_name(name, what) for name in _SEPARATOR.split(text.strip()) if name] if text.strip() else []


def check_name(value: str, what: str) -> str:
    """Returns a value that is a name or size, not an option or a path; raises UsageError, naming parameter `what`."""
    _check_text(value, what)
    if "/" in value or "\\" in value:
        raise UsageError(f"{what}: {value!r} is a path, and a name is needed", "the tool `list` has kernels' names")
    return value


def check_path(value: str, what: str) -> str:
    """Returns a path that lies in one of `FOLDERS`, wherever links lead; raises UsageError if it does not."""
    _check_text(value, what)
    _check_inside(Path(value), value, what)
    return value


def check_run(value: str, what: str) -> str:
    """Returns a run as `show` takes it: a name, `evidence/NAME`, or a path in the project's folder of runs.

    A name that no run has is passed on: the command has the error, with near names. Raises UsageError if the run lies
    elsewhere.
    """
    _check_text(value, what)
    if ("/" in value and not value.startswith(f"{EVIDENCE}/")) or Path(value).exists():
        return check_path(value, what)
    try:
        found = name_runs(RESULTS, value).runs
    except GdnbenchError:
        return value
    for run in found:
        _check_inside(run, value, what)
    return value


def check_newest() -> None:
    """Raises UsageError if any run lies outside the project's folders: without a name the newest is meant."""
    try:
        found = name_runs(RESULTS, "").runs
    except GdnbenchError:
        return  # the command has the error
    for run in found:
        _check_inside(run, run.name, "run")


def check_source(value: str, what: str) -> str:
    """Returns a source of `compare`: a run, `published/NAME`, `git:REV` or a path in the project; raises UsageError."""
    if value.startswith(_GIT):
        return check_revision(value, what)
    if value.startswith(f"{PUBLISHED_FOLDER}/"):
        _check_text(value, what)
        for place in (RESULTS, RESULTS / EVIDENCE):
            _check_inside(place / value, value, what)
        return value
    return check_run(value, what)


def check_revision(value: str, what: str) -> str:
    """Returns `git:REV`; raises UsageError unless REV is a plain name of a commit."""
    _check_text(value, what)
    if not _REVISION.fullmatch(value.removeprefix(_GIT)):
        raise UsageError(f"{what}: {value!r} names no commit", "as in git:HEAD~1")
    return value


def check_ledger() -> None:
    """Raises UsageError if a link leads the ledger, which is written, outside the project."""
    if not LEDGER.resolve().is_relative_to(Path.cwd().resolve()):
        raise UsageError(f"{LEDGER} leads outside the project's folder", "put the file itself there")


def check_text(value: str, what: str) -> str:
    """Returns a sentence, one word of the command; raises UsageError if it is too long, empty or not one line."""
    if len(value) > _LONGEST:
        raise UsageError(f"{what}: {len(value)} characters are too many", f"at most {_LONGEST}")
    if _CONTROL.search(value):
        raise UsageError(f"{what}: there is a control character in it", "give plain text in one line")
    if not value.strip():
        raise UsageError(f"{what}: an empty value", "leave the parameter out")
    return value


def _check_text(value: str, what: str) -> None:
    check_text(value, what)
    for part in _SEPARATOR.split(value):
        if part.startswith("-"):
            raise UsageError(f"{what}: {part!r} begins with a dash", "options are parameters of the tool")
        if ".." in part:
            raise UsageError(f"{what}: {part!r} has '..' in it", _inside_hint())


def _check_inside(path: Path, value: str, what: str) -> None:
    allowed: Sequence[Path] = [folder.resolve() for folder in FOLDERS]
    if not any(path.resolve().is_relative_to(folder) for folder in allowed):
        raise UsageError(f"{what}: {value!r} leads outside the project's folders", _inside_hint())


def _inside_hint() -> str:
    return f"give a name, or a path in {', '.join(f'{folder}/' for folder in FOLDERS)} of the project"


Kernels = Annotated[
    str,
    Meta(
        description="Kernels: names or globs from the tool `list`, separated by commas, params after colons: "
        "'decode-v4,decode-triton:BV=16' or 'decode-v1*'."
    ),
]
Op = Annotated[str, Meta(description="The op whose kernels are meant; by default that of the kernels named.")]
Shape = Annotated[
    str,
    Meta(description="Workloads by axis or alias: 'B=1,8 heads=qk4_v8', 'lengths=8x1024'; the op's own by default."),
]
Suite = Annotated[str, Meta(description="A suite of workloads instead of shape, as 'contest'.")]
Against = Annotated[str, Meta(description="The kernel to compare with; the op's baseline by default.")]
Gpu = Annotated[
    str,
    Meta(description="auto, cpu, an index, or a model (h200, b200), which may be that of a target in gdnbench.toml."),
]
On = Annotated[str, Meta(description="A target of gdnbench.toml to run on; by default here.")]
Rounds = Annotated[int, Meta(ge=0, le=100_000, description="Rounds to measure; 0 for the default.")]
Seed = Annotated[int, Meta(ge=0, description="Of inputs and order; 0 for a fresh one.")]
Budget = Annotated[str, Meta(description="What measuring may take: '60s', '2m'.")]
DryRun = Annotated[bool, Meta(description="Only say what would be built and measured, and about how long.")]
Label = Annotated[str, Meta(description="A word that becomes part of the run's name.")]
Yes = Annotated[bool, Meta(description="Compile even where that takes minutes: what --yes says.")]
Offset = Annotated[int, Meta(ge=0, description="How many rows to leave out: where an earlier result was cut.")]


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool of the server; its fields are the parameters of a call.

    `measures`: it may need the GPU, and such calls run one at a time. `writes`: it writes anything but runs and
    profiles, such as the ledger. `meanings` are of the verb's own exit codes.
    """

    name: ClassVar[str] = ""
    measures: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    meanings: ClassVar[Mapping[int, str]] = {}

    def line(self) -> list[str]:
        """Returns the words of the command behind `gdnbench`; raises UsageError for a refused parameter."""
        return self.words().flag("json").line

    def read(self, output: str) -> Digest:
        """Returns what a model needs of the command's output.

        Raises UsageError for a wrong parameter; ValueError if it is not JSON; LookupError, TypeError or AttributeError
        for unexpected JSON.
        """
        return self.digest(json.loads(output))

    def words(self) -> Words:
        """Makes the command, without `--json`; raises UsageError for a refused parameter."""
        raise NotImplementedError

    def digest(self, document: Any) -> Digest:
        """Returns what a model needs of the command's document; raises as `read` does."""
        return Digest({"result": document})


def call_of(name: str, **arguments: object) -> str:
    """Formats a call for a model, `show(run="main", offset="12")`, without empty arguments."""
    given = ", ".join(
        f"{key}={value}" if isinstance(value, int) else f'{key}="{value}"' for key, value in arguments.items() if value
    )
    return f"{name}({given})".replace('"{offset}"', "{offset}")


def schema_of(tool: type[Tool]) -> dict[str, Any]:
    """Returns the JSON Schema of a tool's parameters."""
    reference = msgspec.json.schema(tool)
    schema: dict[str, Any] = reference["$defs"][tool.__name__]
    return {name: value for name, value in schema.items() if name not in {"title", "description"}}


def description_of(tool: type[Tool]) -> str:
    """Returns a tool's description for a model: its docstring, a line per paragraph."""
    paragraphs = (tool.__doc__ or "").strip().split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
