"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Op = Annotated[str, typer.Option(help="The op whose kernels are meant.")]
Gpu = Annotated[str, typer.Option(help="auto, cpu, an index, a model (h200, b200) or a GPU-… UUID.")]
Batches = Annotated[str, typer.Option("--shape", metavar="B=N,N…", help="Batch sizes.")]
Heads = Annotated[str, typer.Option(metavar="qkN_vM,…", help="Head layouts; the op's first by default.")]
Results = Annotated[Path, typer.Option("--out", help="The folder that holds runs.")]
Profiles = Annotated[Path, typer.Option("--profiles", help="The folder that holds profiles.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]

RESULTS = Path("results")
PROFILES = Path("profiles")
