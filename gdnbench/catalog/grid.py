"""The joint grid of a kernel's params: every combination of the values that a sweep tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import ParamError, UsageError
from gdnbench.model import ParamValue, Variant

Wanted = Mapping[str, tuple[str, ...]]
"""Params to sweep and the values to try, as typed; no values for all that the kernel declares."""

Axes = dict[str, tuple[ParamValue, ...]]
"""Params and the values that a grid tries, in the order in which the kernel declares them."""


def parse_params(texts: Sequence[str]) -> Wanted:
    """Reads `--param` options: `BV` or `BV=4,8,16`.

    Raises:
        UsageError: for one without a name or a value, or a param given twice.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        tried = tuple(value.strip() for value in values.split(",")) if equals else ()
        if not name or (equals and not all(tried)):
            raise UsageError(f"--param {text}: a value is missing", "write --param BV, or --param BV=4,8,16")
        if name in wanted:
            raise UsageError(f"--param {name} is given twice", f"write all values at once: --param {name}=4,8")
        wanted[name] = tried
    return wanted


def choose_bases(catalog: Catalog, op: str, names: Sequence[str], wanted: Wanted) -> tuple[tuple[Entry, Variant], ...]:
    """The kernels to sweep, each with the variant that gives the params which are not swept.

    Args:
        catalog: what there is.
        op: the op whose kernels are meant.
        names: names or globs as typed; a glob means the kernels among its matches that have all of the params, and
            none means every kernel that has.
        wanted: the params.

    Raises:
        UnknownNameError: for a name that nothing has.
        UsageError: if no kernel has all of the params.
    """
    chosen: dict[Variant, Entry] = {}
    for name in ",".join(names or ["all"]).split(","):
        for variant in select_variants(catalog, op, name):
            entry = catalog.entries[variant.kernel]
            # Of `all`, the presets lead to points that their kernels have, too.
            if _is_exact(name) or (_has(entry, wanted) and not (name == "all" and variant.preset)):
                chosen[variant] = entry
    if not chosen:
        raise UsageError(f"no kernel has the params {', '.join(wanted)}", _who_has_what(catalog, op))
    return tuple((entry, variant) for variant, entry in chosen.items())


def _is_exact(name: str) -> bool:
    return name != "all" and not set("*?[") & set(name.partition(":")[0])


def _has(entry: Entry, wanted: Wanted) -> bool:
    """Whether a glob means it: floors are nobody's kernels."""
    return bool(entry.kernel.params) and not entry.kernel.floor and wanted.keys() <= entry.kernel.params.keys()


def grid_axes(catalog: Catalog, entry: Entry, wanted: Wanted) -> Axes:
    """What a kernel's grid tries.

    Raises:
        ParamError: for a param that the kernel lacks or a value that it cannot take.
        UsageError: if the kernel has no params at all.
    """
    declared = entry.kernel.params
    if not declared:
        raise UsageError(f"{entry.kernel.name} has no params to sweep", _who_has_what(catalog, entry.op.name))
    for name in wanted.keys() - declared.keys():
        raise ParamError(f"{entry.kernel.name} has no param {name}", f"its params: {', '.join(declared)}")
    axes: Axes = {}
    for name, param in declared.items():
        if name in wanted or not wanted:
            typed = wanted.get(name) or param.choices
            axes[name] = tuple(dict.fromkeys(param.parse(name, value) for value in typed))
    return axes


def grid_points(entry: Entry, base: Variant, axes: Axes) -> tuple[Variant, ...]:
    """Every combination of the values; params that are not swept are the base's."""
    return tuple(entry.with_params(base, dict(zip(axes, values, strict=True))) for values in product(*axes.values()))


def _who_has_what(catalog: Catalog, op: str) -> str:
    having = {entry.kernel.name: ", ".join(entry.kernel.params) for entry in catalog.of_op(op) if entry.kernel.params}
    return "; ".join(f"{name} has {params}" for name, params in having.items()) or "no kernel has any"
