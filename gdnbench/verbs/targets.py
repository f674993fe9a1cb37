"""`gdnbench targets`: the machines that commands can run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gdnbench.errors import UsageError
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Column, Note, Table, command
from gdnbench.verbs.base import Verb, make_group
from gdnbench.verbs.options import CsvOption, JsonOption

if TYPE_CHECKING:
    from gdnbench.remote.targets import NamedTarget


targets = make_group("targets", "List the machines that commands can run on; add one.")


@targets.callback()
def list_targets(ctx: typer.Context, json: JsonOption = False, csv: CsvOption = False) -> None:
    """List the targets of `gdnbench.toml`, the project's and your own.

    `gdnbench run --on NAME` runs on one of them; so does `--gpu MODEL` where no GPU
    here is of that model and one target says that it has it.
    """
    if ctx.invoked_subcommand:
        return
    from gdnbench.remote.targets import load_targets

    named = list(load_targets().values())
    first = command("doctor", "--on", named[0].name) if named else None
    none = Note("no targets: no gdnbench.toml here or among your own settings names one")
    answer = Answer(
        [Table(_COLUMNS, named, notes=() if named else [none])],
        next=first or command("targets", "init", "lab", "--ssh", "HOST", "--gpu", "h200"),
    )
    print_answer(answer, json=json, csv=csv)


_COLUMNS: list[Column[NamedTarget]] = [
    Column("name", lambda named: named.name, "target", fold=True),
    Column("kind", lambda named: named.described.partition(" ")[0], "kind", fold=True),
    Column("host", lambda named: named.described.partition(" ")[2], "host", fold=True),
    Column(
        "gpus", lambda named: list(named.target.gpus), "GPUs", lambda named: ", ".join(named.target.gpus), fold=True
    ),
    Column("python", lambda named: named.target.python),
    Column("workdir", lambda named: named.target.workdir),
    Column("file", lambda named: str(named.file), "file", fold=True),
]


@targets.command(cls=Verb)
def init(
    name: Annotated[str, typer.Argument(metavar="TARGET", help="What to call it.")],
    ssh: Annotated[
        str,
        typer.Option("--ssh", metavar="HOST", help="The host, as `ssh HOST` reaches it; with --slurm the login node."),
    ] = "",
    slurm: Annotated[bool, typer.Option("--slurm", help="A cluster, on which `srun` runs commands.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="OPTION", help="Of srun, --option=--gres=gpu:1; repeatable.")
    ] = None,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", metavar="MODEL", help="A GPU that it has, h200; repeatable.")
    ] = None,
    python: Annotated[
        str, typer.Option(help="An interpreter there with gdnbench's requirements; one is made by default.")
    ] = "",
    project: Annotated[
        bool,
        typer.Option("--project", help="In the project's folder, not in your own settings: --on alone takes it."),
    ] = False,
) -> None:
    """Add a machine that ssh reaches, or a cluster of Slurm's, to `gdnbench.toml`."""
    from gdnbench.remote.targets import add_target, project_config, user_config

    fields: dict[str, Any]
    if slurm:
        fields = {"kind": "slurm", **({"login": ssh} if ssh else {}), "options": option or []}
    elif ssh and not option:
        fields = {"kind": "ssh", "host": ssh}
    else:
        said = "--option is for --slurm" if ssh else "it is not said how to reach it"
        raise UsageError(said, "give --ssh HOST, or --slurm, with --ssh LOGIN where srun is not here")
    fields |= {"gpus": gpu or [], **({"python": python} if python else {})}
    path = project_config() if project else user_config()
    add_target(path, name, fields)
    note = Note(f"{name} is in {path}", whole=True)
    print_answer(Answer(text=lambda _: [note], next=command("doctor", "--on", name)))
