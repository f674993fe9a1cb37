"""A tool: its parameters, description, command, and the digest of the command's JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from gdnbench.tools_server.result import Digest
from gdnbench.tools_server.words import Words

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
