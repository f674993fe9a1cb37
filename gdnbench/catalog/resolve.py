"""Which op a command is about: the one that `--op` gives, else the one that has the kernels named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import label_parts
from gdnbench.catalog.select import unknown_kernel
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.declaration import EVERY
from gdnbench.model.op import Op

DEFAULT_OP = "decode"
"""The op that is meant where neither `--op` nor a kernel says which."""

_GLOB = re.compile(r"[*?\[]")
_EVERY_KERNEL = frozenset({EVERY, "*"})  # of an op, whichever that is


def find_op(catalog: Catalog, name: str) -> Op:
    """The op of a name.

    Raises:
        UnknownNameError: if there is none.
    """
    if name not in catalog.ops:
        raise UnknownNameError(f"there is no op {name}", f"there are {', '.join(catalog.ops) or 'none'}")
    return catalog.ops[name]


def resolve_op(catalog: Catalog, op: str, named: Iterable[str]) -> str:
    """The op that is given, else the one op that has all of the kernels named.

    Where no kernel is named it is `DEFAULT_OP`; in a catalog without that, the only op there is.

    Args:
        catalog: what there is.
        op: as `--op` gives it; empty where it does not.
        named: names, presets and globs as typed, a text for each or several with commas between; `all` names none.

    Raises:
        UnknownNameError: for a name that no kernel of any op has.
        DeclarationError: for a kernel whose declaration does not load.
        UsageError: if no op has all of the kernels or several do, or if nothing tells which of several ops is meant.
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
    told = "; ".join(f"{term} is of {' and '.join(having)}" for term, having in owners.items())
    if common:
        raise UsageError(f"the kernels of one op are needed: {told}", _say_which(common))
    ops = dict.fromkeys(name for having in owners.values() for name in having)
    raise UsageError(f"the kernels of one op are needed: {told}", f"name those of one op alone, or {_say_which(ops)}")


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
    """What a command that names no kernel says of its op: `--op gemm`, and nothing where `DEFAULT_OP` is meant."""
    return [] if op == DEFAULT_OP else ["--op", op]


def _terms(texts: Iterable[str]) -> list[str]:
    terms = [term.strip() for text in texts for term in text.split(",")]
    return [term for term in terms if term and label_parts(term)[0] not in _EVERY_KERNEL]


def _labels(catalog: Catalog) -> dict[str, list[str]]:
    """The names of kernels and presets, by op."""
    return {
        op: [variant.label for entry in catalog.of_op(op) for variant in (entry.default, *entry.presets)]
        for op in catalog.ops
    }


def _usual_op(catalog: Catalog) -> str:
    if DEFAULT_OP in catalog.ops or not catalog.ops:
        return DEFAULT_OP
    if len(catalog.ops) > 1:
        raise UsageError(f"no kernel is named, and there are {len(catalog.ops)} ops", _say_which(catalog.ops))
    return next(iter(catalog.ops))


def _say_which(ops: Iterable[str]) -> str:
    return f"say which with --op: {' or '.join(ops)}"
