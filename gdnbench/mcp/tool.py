"""A tool: its parameters, description, digest, and command, in which no value leads outside the project."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from gdnbench.catalog.revision import GIT_PREFIX
from gdnbench.codec import SchemaError, convert
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

Check = Callable[[str, str], str | list[str]]
"""Returns a value that is passed to the command; raises UsageError for any other one, naming the parameter."""


class VerbParameter(NamedTuple):
    """A parameter of a verb; `spelling` is its option, empty for an argument, `least` the smallest number."""

    spelling: str
    help: str
    kind: type
    least: int | None = None


VerbParameters = Callable[[str], Mapping[str, VerbParameter]]
"""Returns the parameters of a verb, by name."""


def check_text(value: str, what: str) -> str:
    """Returns a sentence, one word of the command; raises UsageError if it is too long, empty or not one line."""
    if len(value) > _LONGEST:
        raise UsageError(f"{what}: {len(value)} characters are too many", f"at most {_LONGEST}")
    if _CONTROL.search(value):
        raise UsageError(f"{what}: there is a control character in it", "give plain text in one line")
    if not value.strip():
        raise UsageError(f"{what}: an empty value", "leave the parameter out")
    return value


def _check_words(value: str, what: str) -> None:
    check_text(value, what)
    for part in _SEPARATOR.split(value):
        if part.startswith("-"):
            raise UsageError(f"{what}: {part!r} begins with a dash", "options are parameters of the tool")
        if ".." in part:
            raise UsageError(f"{what}: {part!r} has '..' in it", _inside_hint())


def check_name(value: str, what: str) -> str:
    """Returns a value that is a name or size, not an option or a path; raises UsageError, naming parameter `what`."""
    _check_words(value, what)
    if "/" in value or "\\" in value:
        raise UsageError(f"{what}: {value!r} is a path, and a name is needed", "the tool `list` has kernels' names")
    return value


def split_names(text: str, what: str) -> list[str]:
    """Splits names at commas or spaces; raises UsageError for a refused one."""
    return [check_name(name, what) for name in _SEPARATOR.split(text.strip()) if name]


def check_path(value: str, what: str) -> str:
    """Returns a path that lies in one of `FOLDERS`, wherever links lead; raises UsageError if it does not."""
    _check_words(value, what)
    _check_inside(Path(value), value, what)
    return value


def check_run(value: str, what: str) -> str:
    """Returns a run as `show` takes it; a name that no run has is passed on, for the command has near names."""
    if value:
        _check_words(value, what)
        if ("/" in value and not value.startswith(f"{EVIDENCE}/")) or Path(value).exists():
            return check_path(value, what)
    try:
        runs = name_runs(RESULTS, value).runs
    except GdnbenchError:
        return value
    for run in runs:
        _check_inside(run, value or run.name, what)
    return value


def check_source(value: str, what: str) -> str:
    """Returns a source of `compare`: a run, `published/NAME` or a path in the project; raises UsageError."""
    check_text(value, what)
    if value.startswith(f"{PUBLISHED_FOLDER}/"):
        _check_words(value, what)
        for folder in (RESULTS, RESULTS / EVIDENCE):
            _check_inside(folder / value, value, what)
        return value
    return check_run(value, what)


def check_kernel_or_revision(value: str, what: str) -> str:
    """Returns a kernel's name, or `git:REV`; raises UsageError unless REV is a plain name of a commit."""
    if not value.startswith(GIT_PREFIX):
        return check_name(value, what)
    _check_words(value, what)
    if not _REVISION.fullmatch(value.removeprefix(GIT_PREFIX)):
        raise UsageError(f"{what}: {value!r} names no commit", "as in git:HEAD~1")
    return value


def check_ledger() -> None:
    """Raises UsageError if a link leads the ledger, which is written, outside the project."""
    if not LEDGER.resolve().is_relative_to(Path.cwd().resolve()):
        raise UsageError(f"{LEDGER} leads outside the project's folder", "put the file itself there")


def _check_inside(path: Path, value: str, what: str) -> None:
    allowed: Sequence[Path] = [folder.resolve() for folder in FOLDERS]
    if not any(path.resolve().is_relative_to(folder) for folder in allowed):
        raise UsageError(f"{what}: {value!r} leads outside the project's folders", _inside_hint())


def _inside_hint() -> str:
    return f"give a name, or a path in {', '.join(f'{folder}/' for folder in FOLDERS)} of the project"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a tool: what it is of the verb, and how a value is checked.

    `of` names the verb's parameter, by default one of the same name; one with a `kind` of its own is not one of the
    verb's. The verb's help describes it, unless `about` does. `most` is the largest number, or the longest item of a
    list in characters. A list that `is_filled` has an item or more.
    """

    name: str
    of: str = ""
    check: Check = check_name
    about: str = ""
    default: str = ""
    kind: type | None = None
    most: int | None = None
    is_list: bool = False
    is_filled: bool = False
    required: bool = False

    def definition(self, verb: Mapping[str, VerbParameter]) -> tuple[Any, ...]:
        """Returns the field of the tool's struct."""
        row = VerbParameter("", "", self.kind) if self.kind else verb[self.of or self.name]
        kind, about, least = row.kind, self.about or row.help, row.least or 0
        if self.is_list:
            limits = Meta(ge=least) if kind is int else Meta(max_length=self.most or _LONGEST)
            items = list[Annotated[kind, limits]]  # type: ignore[valid-type]
            meta = Meta(description=about, min_length=1 if self.is_filled else None)
            return (
                self.name,
                Annotated[items, meta],
                *(() if self.required else (msgspec.field(default_factory=list),)),
            )
        meta = Meta(description=about, ge=0 if kind is int else None, le=self.most)
        default: Any = self.default if kind is str else kind()
        return (self.name, Annotated[kind, meta], *(() if self.required else (default,)))


Values = Mapping[str, Any]
Options = dict[str, Any]
"""What the command is given, by the verb's parameters: a text, a number, True for a flag, or a list of these."""


@dataclass(frozen=True)
class Tool:
    """A tool of the server: a verb, the parameters that it offers, and what a model needs of the printed JSON.

    `measures`: it may need the GPU, and such calls run one at a time. `writes`: it writes anything but runs and
    profiles, such as the ledger. `meanings` are of the verb's own exit codes. `prepare` checks values together and
    changes the options made of them.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    digest: Callable[[Any, Call], Digest]
    verb: str = ""
    measures: bool = False
    writes: bool = False
    meanings: Mapping[int, str] = field(default_factory=dict)
    prepare: Callable[[Values, Options], None] = lambda _values, _options: None

    def bind(self, parameters_of: VerbParameters) -> BoundTool:
        """Returns the tool with its verb's parameters."""
        return BoundTool(self, parameters_of(self.verb or self.name))


@dataclass(frozen=True)
class BoundTool:
    """A tool, and the parameters of its verb by name."""

    tool: Tool
    verb: Mapping[str, VerbParameter]

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        fields = [parameter.definition(self.verb) for parameter in self.tool.parameters]
        return msgspec.defstruct(self.tool.name, fields, frozen=True, forbid_unknown_fields=True, kw_only=True)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameters."""
        schema: dict[str, Any] = msgspec.json.schema(self._struct)["$defs"][self.tool.name]
        return {name: value for name, value in schema.items() if name not in {"title", "description"}}

    def call(self, arguments: Mapping[str, Any]) -> Call:
        """Makes a call; raises UsageError for a refused parameter."""
        try:
            values = msgspec.structs.asdict(convert(dict(arguments), self._struct))
        except SchemaError as error:
            names = ", ".join(parameter.name for parameter in self.tool.parameters)
            raise UsageError(f"{self.tool.name}: {error}", f"its parameters are {names}") from error
        return Call(self.tool, values, self._command(values))

    def _command(self, values: Values) -> tuple[str, ...]:
        options: Options = {}
        for each in self.tool.parameters:
            value = values[each.name]
            if value and not each.kind:
                name = each.of or each.name
                items = [each.check(item, each.name) if isinstance(item, str) else item for item in _listed(value)]
                flat = [item for item in items for item in _listed(item)]
                options[name] = [*options.get(name, ()), *flat] if not self.verb[name].spelling else flat
        options["json"] = True
        self.tool.prepare(values, options)
        words: list[str] = []
        arguments: list[str] = []
        for name, value in options.items():
            spelling, kind = self.verb[name].spelling, self.verb[name].kind
            if not spelling:
                arguments += map(str, _listed(value))
            elif kind is bool:
                words.append(spelling)
            else:  # one word each
                words += [f"{spelling}={item}" for item in _listed(value)]
        verb = (self.tool.verb or self.tool.name).split()
        return (*verb, *words, *(("--", *arguments) if arguments else ()))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def call_of(name: str, **arguments: object) -> str:
    """Formats a call for a model, `show(run="main", offset="12")`, without empty arguments."""
    filled = ", ".join(
        f"{key}={value}" if isinstance(value, int) else f'{key}="{value}"' for key, value in arguments.items() if value
    )
    return f"{name}({filled})".replace('"{offset}"', "{offset}")


@dataclass(frozen=True)
class Call:
    """A call of a tool: its parameters, and the command behind `gdnbench`."""

    tool: Tool
    values: Values
    command: tuple[str, ...]

    @property
    def measures(self) -> bool:
        """Whether it may need the GPU: that is also verified which closes an entry, or expects an error to change."""
        expected = self.values.get("expect", ())
        return self.tool.measures or "close" in self.command or any("error" in text for text in expected)

    @property
    def offset(self) -> int:
        """How many rows to leave out."""
        return int(self.values.get("offset", 0))

    @property
    def more(self) -> str:
        """The call for the rows after these, which writes nothing; empty if the tool has no `offset`."""
        if "offset" not in self.values:
            return ""
        values = {"entry": self.values["entry"]} if self.tool.writes else self.values
        return call_of(self.tool.name, **{**values, "offset": "{offset}"})

    def read(self, output: str) -> Digest:
        """Returns what a model needs of the command's output."""
        return self.tool.digest(output if self.values.get("code") else json.loads(output), self)
