"""`gdnbench cache`: what compiled kernels take on the disk."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import Csv, Json
from gdnbench.cli.verb import Verb

cache = typer.Typer(invoke_without_command=True, help="Show the build cache; clean it.")


@cache.callback()
def show_cache(ctx: typer.Context, json: Json = False, csv: Csv = False) -> None:
    """Show what the build cache holds: compiled kernels, and kernels of other git revisions.

    It keeps itself within `GDNBENCH_CACHE_LIMIT`, 1G by default: what was not
    used for longest goes first. `gdnbench cache clean` empties it.
    """
    if ctx.invoked_subcommand:
        return
    from gdnbench.binary.eviction import cache_use
    from gdnbench.report.cache_table import print_cache

    print_cache(cache_use(), json=json, csv=csv)


@cache.command(cls=Verb)
def clean(
    older: Annotated[str, typer.Option(metavar="TIME", help="Only what was not used for so long: 30d, 12h.")] = "",
) -> None:
    """Remove compiled kernels and exported revisions; the next run compiles what it needs."""
    from gdnbench.binary.eviction import clean as remove
    from gdnbench.report.cache_table import print_freed
    from gdnbench.store.prune import parse_age

    print_freed(remove(parse_age(older) or 0.0))
