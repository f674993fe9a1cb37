"""Turns what a user typed after `--kernel` into variants."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.errors import ParamError, UnknownNameError
from gdnbench.model import Variant


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
        ParamError: for an unknown param or a value outside its choices.
    """
    known = {variant.label: (entry, variant) for entry in catalog.of_op(op) for variant in _variants(entry)}
    chosen: dict[str, Variant] = {}
    for term in filter(None, (term.strip() for term in wanted.split(","))):
        name, *settings = term.split(":")
        pattern = "*" if name == "all" else name
        matches = [pair for label, pair in known.items() if fnmatchcase(label, pattern)]
        if not matches:
            raise _unknown(name, list(known), catalog)
        values = _settings(settings)
        for entry, variant in matches:
            changed = entry.with_params(variant, values)
            chosen.setdefault(changed.label, changed)
    if not chosen:
        raise UnknownNameError("no kernel was named", "try --kernel all, or see `gdnbench list`")
    return tuple(chosen.values())


def find_variant(catalog: Catalog, op: str, label: str) -> tuple[Entry, Variant]:
    """The kernel and the one variant that a label names; params may follow it as in `select_variants`.

    Raises:
        UnknownNameError: if there is none, or the label is a pattern that fits several.
        ParamError: for an unknown param or a value outside its choices.
    """
    variants = select_variants(catalog, op, label)
    if len(variants) > 1:
        raise UnknownNameError(f"{label} names {len(variants)} kernels, and one is needed", "name it in full")
    return catalog.entries[variants[0].kernel], variants[0]


def _variants(entry: Entry) -> tuple[Variant, ...]:
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


def _unknown(name: str, known: list[str], catalog: Catalog) -> UnknownNameError:
    for broken in catalog.broken:
        if _joined(name) == _joined(broken.name):
            return UnknownNameError(f"kernel {name} could not be loaded: {broken.reason}", f"mend {broken.folder}")
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`gdnbench list` shows every kernel"
    return UnknownNameError(f"there is no kernel {name}", hint)


def _joined(name: str) -> str:
    """A kernel's usual name from its op and folder: `decode/v4_fast` and `decode-v4-fast` are one."""
    return name.replace("/", "-").replace("_", "-")
