"""Imported documents in the folders of ops and kernels: code in files of its own, the rest as JSON beside it."""

from __future__ import annotations

import json
from pathlib import Path

from gdnbench.exchange.parse import parse_definition, parse_solution, parse_traces, read_text
from gdnbench.exchange.schema import Definition, Solution, Trace, document_of

DEFINITION_FILE = "definition.json"
REFERENCE_FILE = "reference.py"
SOLUTION_FILE = "solution.json"
SOURCES_FOLDER = "source"
WORKLOADS_FILE = "workloads.jsonl"
BLOBS_FOLDER = "blobs"
MOST_BLOB_BYTES = 1 << 32
"""Limit of one file of a data set's inputs."""


def definition_files(definition: Definition) -> dict[Path, bytes]:
    """Returns a Definition as files of an op's folder."""
    document = document_of(definition)
    reference = document.pop("reference")
    return {Path(DEFINITION_FILE): _encoded(document), Path(REFERENCE_FILE): reference.encode()}


def kept_definition(folder: Path) -> Definition:
    """Reads the Definition that an op was imported from; raises UsageError if its files are invalid."""
    path = folder / DEFINITION_FILE
    document = json.loads(read_text(path))
    document["reference"] = read_text(folder / REFERENCE_FILE)
    return parse_definition(json.dumps(document), str(path))


def solution_files(solution: Solution) -> dict[Path, bytes]:
    """Returns a Solution as files of a kernel's folder."""
    document = document_of(solution)
    document["sources"] = [source.path for source in solution.sources]
    files = {Path(SOURCES_FOLDER, source.path): source.content.encode() for source in solution.sources}
    return {Path(SOLUTION_FILE): _encoded(document), **files}


def kept_solution(folder: Path) -> Solution:
    """Reads the Solution that a kernel was imported from, with its current sources; raises UsageError if invalid."""
    path = folder / SOLUTION_FILE
    document = json.loads(read_text(path))
    document["sources"] = [
        {"path": name, "content": read_text(folder / SOURCES_FOLDER / name)} for name in document["sources"]
    ]
    return parse_solution(json.dumps(document), str(path))


def kept_workloads(folder: Path) -> list[Trace]:
    """Reads the workloads that an op was imported with, if any; raises UsageError if the file is invalid."""
    path = folder / WORKLOADS_FILE
    return parse_traces(read_text(path), str(path)) if path.is_file() else []


def literal(text: str) -> str:
    """Returns a text as a Python string literal."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def one_line(text: str) -> str:
    """Returns the first line of a text, at most 100 printable characters."""
    first = (text.strip().splitlines() or [""])[0]
    return "".join(each for each in first if each.isprintable())[:100]


def _encoded(document: object) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
