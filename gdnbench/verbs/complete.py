"""What the shell offers behind TAB: kernels with their presets, ops, stored runs and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gdnbench.origin import RESULTS

if TYPE_CHECKING:
    from gdnbench.catalog.catalog import Catalog


Candidates = Callable[[Any, str], Iterable[str]]


def _completer(candidates: Candidates) -> Callable[[Any, str], list[str]]:
    """Makes what Typer calls: those of the candidates that begin so; none where they cannot be found."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        try:
            return [each for each in dict.fromkeys(candidates(ctx, incomplete)) if each.startswith(incomplete)]
        except Exception:
            return []

    return complete


def _ops(_ctx: Any, _word: str) -> Iterable[str]:
    from gdnbench.catalog.catalog import load_catalog

    return load_catalog().ops


def _targets(_ctx: Any, _word: str) -> Iterable[str]:
    from gdnbench.remote.targets import load_targets

    return load_targets()


def _kernels(ctx: Any, word: str) -> Iterator[str]:
    from gdnbench.catalog.catalog import load_catalog

    catalog = load_catalog()
    before, comma, _ = word.rpartition(",")
    ops = _meant_ops(catalog, ctx.params or {}, before)
    for entry in catalog.entries.values():
        if entry.op.name in ops:
            yield from (before + comma + variant.label for variant in (entry.default, *entry.presets))


def _meant_ops(catalog: Catalog, params: dict[str, Any], before: str) -> tuple[str, ...]:
    """The op that `--op` gives, else those that have all of the kernels named so far; all, where none has."""
    if op := params.get("op"):
        return (op,)
    from gdnbench.catalog.select import ops_having

    named = [*_texts(params.get("kernels")), *_texts(params.get("kernel")), before]
    return ops_having(catalog, named) or tuple(catalog.ops)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value or ()]


def _runs(ctx: Any, _word: str) -> Iterator[str]:
    from gdnbench.store.find import list_runs

    results = (ctx.params or {}).get("results") or RESULTS
    names = [path.name for path in reversed(list_runs(results))]
    yield from names
    parts = [name.split("-") for name in names]
    yield from ("-".join(each[4:]) for each in parts if len(each) > 4)
    yield from (each[2] for each in parts if len(each) > 2)
    yield from (f"published/{path.parent.name}" for path in sorted(results.glob("published/*/figures.csv")))


def _stopped(ctx: Any, _word: str) -> Iterator[str]:
    from gdnbench.store.find import list_runs, readable
    from gdnbench.store.info import read_info

    results = (ctx.params or {}).get("results") or RESULTS
    infos = readable(list_runs(results, stopped=True)[::-1], read_info)
    yield from (info.run_id for info in infos if not info.complete)


complete_kernels, complete_ops, complete_runs, complete_stopped, complete_targets = map(
    _completer, (_kernels, _ops, _runs, _stopped, _targets)
)
"""Kernels with their presets, behind a comma as well; ops; stored runs and published tables; stopped runs; targets."""
