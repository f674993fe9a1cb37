"""Parses a user's choice of kernels: variants by name, the op that has them, and the params that a sweep combines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product

from gdnbench.catalog.catalog import Catalog, own_roots
from gdnbench.catalog.entry import Broken, CatalogEntry, label_parts
from gdnbench.errors import GdnbenchError, ParamError, UnknownNameError, UsageError
from gdnbench.model.case import Variant
from gdnbench.model.declaration import EVERY, ParamValue
from gdnbench.wording import did_you_mean

TypedParams = Mapping[str, tuple[str, ...]]
"""Params to sweep and the values to try, as typed; no values for all that the kernel declares."""

ParamGrid = dict[str, tuple[ParamValue, ...]]
"""Params and the values that a grid tries, in the order in which the kernel declares them."""


def select_variants(catalog: Catalog, op: str, wanted: str) -> tuple[Variant, ...]:
    """The variants of an op that a text names, in catalog order of first mention, none twice.

    `wanted` is `all` (every kernel that `meant_of_op` gives, and its presets), or names, presets and globs separated by
    commas, each with params to change after colons: `decode-v4,decode-v1*,decode-triton:BV=16:WARPS=4`.

    Raises UnknownNameError for a name that nothing has, with the nearest ones; DeclarationError for a kernel whose
    declaration does not load; ParamError for an unknown param or a value outside its choices.
    """
    known = {variant.label: (entry, variant) for entry in catalog.of_op(op) for variant in entry.variants}
    meant = {entry.kernel.name for entry in catalog.meant_of_op(op)}
    chosen: dict[str, Variant] = {}
    for term in filter(None, (term.strip() for term in wanted.split(","))):
        name, settings = label_parts(term)
        if name == EVERY:
            matches = [pair for pair in known.values() if pair[0].kernel.name in meant]
        else:
            matches = [pair for label, pair in known.items() if fnmatchcase(label, name)]
        if not matches or _is_own_name(catalog, name):
            raise unknown_kernel(catalog, f"{op}-*" if name == EVERY else name, list(known))
        values = _settings(settings)
        for entry, variant in matches:
            changed = entry.with_params(variant, values)
            chosen.setdefault(changed.label, changed)
    if not chosen:
        raise UnknownNameError("no kernel was named", "try --kernel all, or see `gdnbench list`")
    return tuple(chosen.values())


def _is_own_name(catalog: Catalog, name: str) -> bool:
    """Whether a bundled kernel has a name that one of the project claims, too, which therefore does not load."""
    claims = {each.claims for each in catalog.broken if catalog.is_own(each.folder)}
    return catalog.is_of_project and name in claims - {""}


def find_variant(catalog: Catalog, op: str, label: str) -> tuple[CatalogEntry, Variant]:
    """The kernel and the one variant that a label names, as `select_variants`; UnknownNameError if it names several."""
    variants = select_variants(catalog, op, label)
    if len(variants) > 1:
        raise UnknownNameError(f"{label} names {len(variants)} kernels, and one is needed", "name it in full")
    return catalog.entries[variants[0].kernel], variants[0]


def _settings(texts: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise ParamError(f"`{text}` sets no param", "write NAME=VALUE, as in decode-v4:WARPS=4")
        if values.setdefault(name, value) != value:
            raise ParamError(f"{name}={values[name]} and {name}={value} are given at once", f"give {name} once")
    return values


def unknown_kernel(catalog: Catalog, name: str, known: Sequence[str]) -> GdnbenchError:
    """The error for an unknown kernel: why it did not load, that it is of another op, or the nearest names."""
    if broken := find_broken(catalog, name):
        return broken.error
    if name in catalog.ops:
        hint = f"`gdnbench list --op {name}` shows its kernels; where several may be named, --op {name} means all"
        return UnknownNameError(f"{name} is an op, not a kernel", hint)
    if owner := catalog.owner(name):
        message = f"{name} is a kernel of {owner.op.name}, and another op's are named"
        return UnknownNameError(message, f"leave --op out, or give --op {owner.op.name}")
    hint = did_you_mean(name, known, "`gdnbench list` shows every kernel", cutoff=0.5)
    return UnknownNameError(f"there is no kernel {name}", hint)


def find_broken(catalog: Catalog, name: str) -> Broken | None:
    """The folder that did not load, if it claims the name, or that or a pattern means its kernel or its op."""
    wanted = _joined(name)
    for broken in catalog.broken:
        usual = _joined(broken.name)
        if name == broken.claims or fnmatchcase(usual, wanted) or (broken.is_op and wanted.startswith(f"{usual}-")):
            return broken
    return None


def broken_kernel(catalog: Catalog, label: str) -> Broken | None:
    """The folder of the kernel that a label names, if it did not load; None if a kernel has the label."""
    name, _ = label_parts(label)
    return None if catalog.owner(name) else find_broken(catalog, name)


def _joined(name: str) -> str:
    """A kernel's usual name from its op and folder: `decode/v4_fast` and `decode-v4-fast` are one."""
    return name.replace("/", "-").replace("_", "-")


def parse_params(texts: Sequence[str]) -> TypedParams:
    """Reads `--param` options: `BV` or `BV=4,8,16`; UsageError for a missing name or value, or a param given twice."""
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

    `names` are names or globs as typed; a glob means the kernels among its matches that have all of the `wanted`
    params, none means every kernel that has. Raises UsageError if no kernel has all of the params, and as
    `select_variants`.
    """
    chosen: dict[Variant, CatalogEntry] = {}
    for name in ",".join(names or [EVERY]).split(","):
        for variant in select_variants(catalog, op, name):
            entry = catalog.entries[variant.kernel]
            # Of `all`, the presets lead to points that their kernels have, too.
            is_exact = name != EVERY and not set("*?[") & set(label_parts(name)[0])
            params = entry.kernel.params
            has_all = bool(params) and not entry.kernel.floor and wanted.keys() <= params.keys()
            if is_exact or (has_all and not (name == EVERY and variant.preset)):
                chosen[variant] = entry
    if not chosen:
        raise UsageError(f"no kernel has the params {', '.join(wanted)}", _who_has_what(catalog, op))
    return tuple((entry, variant) for variant, entry in chosen.items())


def grid_axes(catalog: Catalog, entry: CatalogEntry, wanted: TypedParams) -> ParamGrid:
    """The values that a kernel's grid tries; ParamError for an unknown param or value, UsageError without params."""
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


DEFAULT_OP = "decode"
"""The op that is meant where neither `--op` nor a kernel says which."""

_GLOB = re.compile(r"[*?\[]")
_EVERY_KERNEL = frozenset({EVERY, "*"})  # of an op, whichever that is


def resolve_op(catalog: Catalog, op: str, named: Iterable[str]) -> str:
    """The op that is given, else the one op that has all of the kernels named.

    Where no kernel is named it is `DEFAULT_OP`; in a project, or a catalog without that, the only op there is. `op` is
    as `--op` gives it, empty without; `named` are names, presets and globs as typed, perhaps several with commas
    between.

    Raises UnknownNameError for a name that no kernel has; DeclarationError for a kernel that does not load;
    UsageError if no op has all of the kernels or several do, or it is ambiguous which of several is meant.
    """
    if op:
        return op
    terms = _terms(named)
    if not terms:
        return _usual_op(catalog)
    owners = {term: ops_having(catalog, [term]) for term in terms}
    for term, having in owners.items():
        if not having:
            every = [label for labels in _labels(catalog).values() for label in labels]
            raise unknown_kernel(catalog, label_parts(term)[0], every)
    common = ops_having(catalog, terms)
    if len(common) > 1:
        common = _written_for(terms, common)
    if len(common) == 1:
        return common[0]
    message = "; ".join(f"{term} is of {' and '.join(having)}" for term, having in owners.items())
    ops = common or dict.fromkeys(name for having in owners.values() for name in having)
    hint = "" if common else "name those of one op alone, or "
    raise UsageError(f"the kernels of one op are needed: {message}", f"{hint}{_say_which(ops)}")


def names_no_kernel(named: Iterable[str]) -> bool:
    """Whether every kernel of an op is meant: nothing is named, or `all`."""
    return not _terms(named)


def _written_for(terms: Sequence[str], ops: Sequence[str]) -> tuple[str, ...]:
    """Of several ops the one whose name all globs begin with: `decode-*` means `decode`, and not `decode-pool`, too."""
    begun = [_GLOB.split(label_parts(term)[0], maxsplit=1)[0] for term in terms]
    named = {max((op for op in ops if start.startswith(f"{op}-")), key=len, default="") for start in begun}
    return tuple(named) if len(named) == 1 and "" not in named else tuple(ops)


def ops_having(catalog: Catalog, named: Iterable[str]) -> tuple[str, ...]:
    """The ops in which each of the names and globs means some kernel or preset; where none is named, every op."""
    patterns = [label_parts(term)[0] for term in _terms(named)]
    return tuple(
        op
        for op, labels in _labels(catalog).items()
        if all(any(fnmatchcase(label, pattern) for label in labels) for pattern in patterns)
    )


def op_option(op: str) -> list[str]:
    """What a command that names no kernel says of its op: `--op gemm`; nothing where `DEFAULT_OP` is meant anyway."""
    return [] if op == DEFAULT_OP and not own_roots() else ["--op", op]


def _terms(texts: Iterable[str]) -> list[str]:
    terms = [term.strip() for text in texts for term in text.split(",")]
    return [term for term in terms if term and label_parts(term)[0] not in _EVERY_KERNEL]


def _labels(catalog: Catalog) -> dict[str, list[str]]:
    return {op: [variant.label for entry in catalog.of_op(op) for variant in entry.variants] for op in catalog.ops}


def _usual_op(catalog: Catalog) -> str:
    ops = catalog.meant_ops
    if catalog.is_of_project and not ops:
        raise UsageError("no kernel is named, and the project has none that loads", "see `gdnbench list`")
    if not catalog.is_of_project and (DEFAULT_OP in ops or not ops):
        return DEFAULT_OP
    if len(ops) > 1:
        raise UsageError(f"no kernel is named, and there are {len(ops)} ops", _say_which(ops))
    return ops[0]


def _say_which(ops: Iterable[str]) -> str:
    return f"say which with --op: {' or '.join(ops)}"
