"""A job: one command for another machine, as a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from gdnbench.codec import SchemaError, decode_json
from gdnbench.errors import UsageError
from gdnbench.places import GPU_VERBS
from gdnbench.regular_file import read_regular
from gdnbench.store.schema import GitDocument, TextLine

SCHEMA: Literal[1] = 1
JOB = "job.json"
OUT = "out"
"""The folder beside `job.json` that the command runs in."""
INPUTS = "inputs"
"""The folder beside `job.json` with the captured inputs that the command needs."""

MOST_BYTES = 1 << 24
"""Of a job's file, which is a command line."""

VariableName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]


@dataclass(frozen=True, kw_only=True)
class RemoteJob:
    """One command for another machine.

    Attributes:
        words: the command line behind `gdnbench`, the verb first.
        roots: the folders of kernels that travelled, as they are called there.
        gpu: what was asked for by `--gpu`.
        models: the GPU models of which the chosen one must be; none for any.
        target: the target's name.
        resume: the stopped run that is taken up; empty for none.
        results: what the folder of runs is called here, for commands that the output names.
        profiles: what the folder of profiles is called here.
        inputs: what the file or the folder of captured inputs is called here; empty for none.
        width: of the terminal here, in columns; None where there is none.
        colour: whether output is to be coloured.
        environment: variables for the command; no other one travels.
        git: the checkout that the sources come from.
        patience_s: seconds without a line on the worker's stdin after which whoever asked counts as gone; 0 for no
            limit.
        schema: version of this format.
    """

    words: Annotated[list[str], Meta(min_length=1)]
    roots: list[str] = field(default_factory=list)
    gpu: str = "auto"
    models: list[str] = field(default_factory=list)
    target: TextLine = ""
    resume: str = ""
    results: str = "results"
    profiles: str = "profiles"
    inputs: str = ""
    width: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    colour: bool = False
    environment: dict[VariableName, str] = field(default_factory=dict)
    git: GitDocument = field(default_factory=GitDocument)
    patience_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    schema: Literal[1] = SCHEMA

    @property
    def verb(self) -> str:
        """What is to be done."""
        return self.words[0]

    def to_json(self) -> str:
        """The file's text."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read_job(path: Path) -> RemoteJob:
    """Reads a job.

    Raises:
        UsageError: if there is none, a field does not fit, or its verb cannot be a job.
    """
    try:
        text = read_regular(path, MOST_BYTES)
        schema = decode_json(text, dict[str, Any]).get("schema")
        if schema != SCHEMA:
            raise UsageError(f"{path} is of schema {schema}; this gdnbench knows {SCHEMA}", "send it anew")
        job = decode_json(text, RemoteJob)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "name a job's file") from error
    except SchemaError as error:
        raise UsageError(f"{path} is no job: {error}", "send it anew") from error
    if job.verb not in GPU_VERBS:
        raise UsageError(f"{path}: {job.verb!r} is no job", f"those are {', '.join(GPU_VERBS)}")
    return job
