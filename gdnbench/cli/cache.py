"""`gdnbench cache`: shows and cleans the cache of compiled kernels."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import CsvOption, JsonOption
from gdnbench.cli.verb import Verb, make_group

cache = make_group("cache", "Show the build cache; clean it.")


@cache.callback()
def show_cache(ctx: typer.Context, json: JsonOption = False, csv: CsvOption = False) -> None:
    """Show what the build cache holds: compiled kernels, and kernels of other git revisions.

    It stays within `GDNBENCH_CACHE_LIMIT`, 1G by default: the least recently used
    is removed first. `gdnbench cache clean` empties it.
    """
    if ctx.invoked_subcommand:
        return
    from gdnbench.codegen.cache import cache_use
    from gdnbench.report.cache import print_cache

    print_cache(cache_use(), json=json, csv=csv)


@cache.command(cls=Verb)
def clean(
    older: Annotated[str, typer.Option(metavar="TIME", help="Only what was not used for this long: 30d, 12h.")] = "",
) -> None:
    """Remove compiled kernels and exported revisions; the next run compiles what it needs."""
    from gdnbench.codegen.cache import clean as remove
    from gdnbench.report.cache import print_freed
    from gdnbench.store.overview import parse_age

    print_freed(remove(parse_age(older) or 0.0))
