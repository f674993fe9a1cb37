"""`gdnbench project`: how fast would this pipeline be, and what would help?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.options import JsonOption


def project(
    file: Annotated[Path, typer.Argument(metavar="PIPELINE.toml", help="Stages, buffers, items, blocks.")],
    json: JsonOption = False,
) -> None:
    """Run a pipeline of producers and consumers on paper. Needs no GPU.

    The file has stages with the time of an item, given or of a stored profile of
    `gdnbench phases`, and buffers with their slots. Out come the time of an item in
    the steady state and of the whole, what sets it, what each stage waits for, and
    what each change would save: a stage faster, a worker or a slot more.
    """
    from gdnbench.project.advise import advise
    from gdnbench.project.read import read_pipeline
    from gdnbench.project.simulate import project as run_on_paper
    from gdnbench.report.project import print_projection

    projection = run_on_paper(read_pipeline(file))
    print_projection(projection, advise(projection), file, json=json)
