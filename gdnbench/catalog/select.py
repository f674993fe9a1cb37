"""Parses a user's choice of variants: names after `--kernel`, and the params that a sweep combines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Broken, CatalogEntry, label_parts
from gdnbench.errors import DeclarationError, GdnbenchError, ParamError, UnknownNameError, UsageError
from gdnbench.model.case import Variant
from gdnbench.model.declaration import EVERY, ParamValue
from gdnbench.wording import did_you_mean

TypedParams = Mapping[str, tuple[str, ...]]
"""Params to sweep and the values to try, as typed; no values for all that the kernel declares."""

ParamGrid = dict[str, tuple[ParamValue, ...]]
"""Params and the values that a grid tries, in the order in which the kernel declares them."""


def select_variants(catalog: Catalog, op: str, wanted: str) -> tuple[Variant, ...]:
    """Variants by name.

    Args:
        catalog: what there is.
        op: the op whose kernels are meant.
        wanted: `all`, or names, presets and globs separated by commas, each with params to change after colons:
            `decode-v4,decode-v1*,decode-triton:BV=16:WARPS=4`.

    Returns:
        The variants in catalog order of first mention, none twice. `all` is every kernel and every preset.

    Raises:
        UnknownNameError: for a name that nothing has, with the nearest ones.
        DeclarationError: for a kernel whose declaration does not load.
        ParamError: for an unknown param or a value outside its choices.
    """
    known = {variant.label: (entry, variant) for entry in catalog.of_op(op) for variant in _variants(entry)}
    chosen: dict[str, Variant] = {}
    for term in filter(None, (term.strip() for term in wanted.split(","))):
        name, settings = label_parts(term)
        pattern = "*" if name == EVERY else name
        matches = [pair for label, pair in known.items() if fnmatchcase(label, pattern)]
        if not matches:
            raise unknown_kernel(catalog, f"{op}-*" if name == EVERY else name, list(known))
        values = _settings(settings)
        for entry, variant in matches:
            changed = entry.with_params(variant, values)
            chosen.setdefault(changed.label, changed)
    if not chosen:
        raise UnknownNameError("no kernel was named", "try --kernel all, or see `gdnbench list`")
    return tuple(chosen.values())


def find_variant(catalog: Catalog, op: str, label: str) -> tuple[CatalogEntry, Variant]:
    """The kernel and the one variant that a label names; params may follow it as in `select_variants`.

    Raises:
        UnknownNameError: if there is none, or the label is a pattern that fits several.
        ParamError: for an unknown param or a value outside its choices.
    """
    variants = select_variants(catalog, op, label)
    if len(variants) > 1:
        raise UnknownNameError(f"{label} names {len(variants)} kernels, and one is needed", "name it in full")
    return catalog.entries[variants[0].kernel], variants[0]


def _variants(entry: CatalogEntry) -> tuple[Variant, ...]:
    return (entry.default, *entry.presets)


def _settings(texts: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in map(_setting, texts):
        if values.setdefault(name, value) != value:
            raise ParamError(f"{name}={values[name]} and {name}={value} are given at once", f"give {name} once")
    return values


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ParamError(f"`{text}` sets no param", "write NAME=VALUE, as in decode-v4:WARPS=4")
    return name, value


def unknown_kernel(catalog: Catalog, name: str, known: Sequence[str]) -> GdnbenchError:
    """The error for a name that no kernel asked for has.

    It says why its folder did not load, that it is an op or a kernel of another op, or the nearest names.
    """
    if broken := find_broken(catalog, name):
        return DeclarationError(f"kernel {name} could not be loaded: {broken.reason}", f"mend {broken.folder}")
    if name in catalog.ops:
        return UnknownNameError(f"{name} is an op, not a kernel", f"--op {name} means all of its kernels")
    if owner := catalog.owner(name):
        told = f"{name} is a kernel of {owner.op.name}, and those of another op are asked for"
        return UnknownNameError(told, f"leave --op out, or give --op {owner.op.name}")
    hint = did_you_mean(name, known, "`gdnbench list` shows every kernel", cutoff=0.5)
    return UnknownNameError(f"there is no kernel {name}", hint)


def find_broken(catalog: Catalog, name: str) -> Broken | None:
    """The folder that did not load, if a kernel's usual name is that of one, or a pattern fits it."""
    wanted = _joined(name)
    return next((broken for broken in catalog.broken if fnmatchcase(_joined(broken.name), wanted)), None)


def _joined(name: str) -> str:
    """A kernel's usual name from its op and folder: `decode/v4_fast` and `decode-v4-fast` are one."""
    return name.replace("/", "-").replace("_", "-")


def parse_params(texts: Sequence[str]) -> TypedParams:
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


def choose_bases(
    catalog: Catalog, op: str, names: Sequence[str], wanted: TypedParams
) -> tuple[tuple[CatalogEntry, Variant], ...]:
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
    chosen: dict[Variant, CatalogEntry] = {}
    for name in ",".join(names or [EVERY]).split(","):
        for variant in select_variants(catalog, op, name):
            entry = catalog.entries[variant.kernel]
            # Of `all`, the presets lead to points that their kernels have, too.
            if _is_exact(name) or (_has(entry, wanted) and not (name == EVERY and variant.preset)):
                chosen[variant] = entry
    if not chosen:
        raise UsageError(f"no kernel has the params {', '.join(wanted)}", _who_has_what(catalog, op))
    return tuple((entry, variant) for variant, entry in chosen.items())


def _is_exact(name: str) -> bool:
    return name != EVERY and not set("*?[") & set(label_parts(name)[0])


def _has(entry: CatalogEntry, wanted: TypedParams) -> bool:
    """Whether a glob selects it: it has these params and is no floor."""
    return bool(entry.kernel.params) and not entry.kernel.floor and wanted.keys() <= entry.kernel.params.keys()


def grid_axes(catalog: Catalog, entry: CatalogEntry, wanted: TypedParams) -> ParamGrid:
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
    axes: ParamGrid = {}
    for name, param in declared.items():
        if name in wanted or not wanted:
            typed = wanted.get(name) or param.choices
            axes[name] = tuple(dict.fromkeys(param.parse(name, value) for value in typed))
    return axes


def grid_points(entry: CatalogEntry, base: Variant, axes: ParamGrid) -> tuple[Variant, ...]:
    """Every combination of the values; params that are not swept are the base's."""
    return tuple(entry.with_params(base, dict(zip(axes, values, strict=True))) for values in product(*axes.values()))


def _who_has_what(catalog: Catalog, op: str) -> str:
    having = {entry.kernel.name: ", ".join(entry.kernel.params) for entry in catalog.of_op(op) if entry.kernel.params}
    return "; ".join(f"{name} has {params}" for name, params in having.items()) or "no kernel has any"
