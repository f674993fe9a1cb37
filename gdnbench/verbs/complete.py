"""What the shell offers behind TAB: kernels with their presets and params, and stored runs.

Bash takes `decode-v4:WARPS=8` apart at `:` and `=` and asks for the last part alone, so the whole word is put together
from its own account of the line (`COMP_WORDS`), and what is offered is cut as it cuts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gdnbench.origin import RESULTS

if TYPE_CHECKING:
    from gdnbench.catalog.catalog import Catalog


_BREAKS = (":", "=")


def complete_kernels(ctx: Any, incomplete: str) -> list[str]:
    """Names and presets, behind a comma as well; behind a colon, the kernel's params with their values."""
    return _offered(ctx, incomplete, _kernels)


def complete_ops(ctx: Any, incomplete: str) -> list[str]:
    """The ops of the catalog."""
    return _offered(ctx, incomplete, _ops)


def complete_runs(ctx: Any, incomplete: str) -> list[str]:
    """Ids, labels and GPUs of stored runs, and published tables."""
    return _offered(ctx, incomplete, _runs)


def complete_stopped(ctx: Any, incomplete: str) -> list[str]:
    """Ids of runs that were stopped."""
    return _offered(ctx, incomplete, _stopped)


def complete_targets(ctx: Any, incomplete: str) -> list[str]:
    """The targets of `gdnbench.toml`."""
    return _offered(ctx, incomplete, _targets)


def _offered(ctx: Any, incomplete: str, candidates: Callable[[Any, str], Iterable[str]]) -> list[str]:
    word = _whole_word(incomplete)
    try:
        matching = [each for each in dict.fromkeys(candidates(ctx, word)) if each.startswith(word)]
    except Exception:
        return []
    if word == incomplete:
        return matching
    if incomplete in _BREAKS:
        return [_Behind(each.removeprefix(word)) for each in matching]
    return [each[len(word) - len(incomplete) :] for each in matching]


class _Behind(str):
    """What stands behind a colon that bash takes for a word of its own, though it does not begin with it."""

    __slots__ = ()

    def startswith(self, *_prefix: Any) -> bool:
        return True


def _whole_word(incomplete: str) -> str:
    words = os.environ.get("COMP_WORDS", "").split("\n")
    place = os.environ.get("COMP_CWORD", "")
    if not place.isdecimal() or not 0 < int(place) < len(words) or words[int(place)] != incomplete:
        return incomplete
    start = int(place)
    while start > 1 and (words[start] in _BREAKS or words[start - 1] in _BREAKS):
        start -= 1
    return "".join(words[start : int(place) + 1])


def _ops(_ctx: Any, _word: str) -> Iterable[str]:
    from gdnbench.catalog.catalog import load_catalog

    return load_catalog().ops


def _targets(_ctx: Any, _word: str) -> Iterable[str]:
    from gdnbench.remote.targets import load_targets

    return load_targets()


def _kernels(ctx: Any, word: str) -> Iterator[str]:
    from gdnbench.catalog.catalog import load_catalog

    catalog = load_catalog()
    before, comma, last = word.rpartition(",")
    ops = _meant_ops(catalog, ctx.params or {}, before)
    name, colon, _ = last.partition(":")
    labels = {
        variant.label: entry
        for entry in catalog.entries.values()
        if entry.op.name in ops
        for variant in (entry.default, *entry.presets)
    }
    if not colon:
        yield from (before + comma + label for label in labels)
    elif name in labels:
        yield from (before + comma + each for each in _with_params(catalog, labels[name].kernel.name, last))


def _meant_ops(catalog: Catalog, params: dict[str, Any], before: str) -> tuple[str, ...]:
    """The op that `--op` gives, else those that have all of the kernels named so far; all, where none has."""
    if op := params.get("op"):
        return (op,)
    from gdnbench.catalog.select import ops_having

    named = [*_texts(params.get("kernels")), *_texts(params.get("kernel")), before]
    return ops_having(catalog, named) or tuple(catalog.ops)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value or ()]


def _with_params(catalog: Catalog, kernel: str, typed: str) -> Iterator[str]:
    from gdnbench.catalog.entry import label_parts

    settled = typed.rpartition(":")[0]
    set_already = {setting.partition("=")[0] for setting in label_parts(settled)[1]}
    for name, param in catalog.entries[kernel].kernel.params.items():
        if name not in set_already:
            yield from (f"{settled}:{name}={choice}" for choice in param.choices)


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
