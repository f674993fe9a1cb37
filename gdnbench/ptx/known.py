"""Known forms of instructions: one with a modifier that is not listed is not interpreted, never guessed."""

from __future__ import annotations

from collections.abc import Mapping

from gdnbench.ptx.program import WIDTHS, PtxInstruction

_ROUNDING = frozenset({"rn", "rz", "rm", "rp"})
_WHOLE = frozenset({"rni", "rzi", "rmi", "rpi"})
_COMPARISONS = frozenset({
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
    "and", "or", "xor", "ftz",
})  # fmt: skip
_SPACES = frozenset({"global", "shared", "shared__cta", "local", "const", "param", "param__entry", "param__func"})
_ORDER = frozenset({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"})
_CACHING = frozenset({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "v2", "v4", "v8"})
_ATOMIC = frozenset({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "noftz"})
_ANY = frozenset({"*"})

KNOWN: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("add", "sub", "fma"), _ROUNDING | {"ftz", "sat"}),
    **dict.fromkeys(("mul", "mad"), _ROUNDING | {"ftz", "sat", "lo", "hi", "wide"}),
    **dict.fromkeys(("mul24", "mad24"), frozenset({"lo", "hi"})),
    "div": _ROUNDING | {"ftz", "approx", "full"},
    **dict.fromkeys(("neg", "abs", "slct"), frozenset({"ftz"})),
    **dict.fromkeys(("min", "max"), frozenset({"ftz", "NaN"})),
    **dict.fromkeys(("sqrt", "rsqrt", "rcp"), _ROUNDING | {"ftz", "approx"}),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh"), frozenset({"ftz", "approx"})),
    "shf": frozenset({"l", "r", "wrap", "clamp"}),
    "bfind": frozenset({"shiftamt"}),
    **dict.fromkeys(("bra", "ret"), frozenset({"uni"})),
    "brx": frozenset({"idx", "uni"}),
    "cvta": frozenset({"to", "global", "shared", "local", "const"}),
    "isspacep": _SPACES,
    "cvt": _ROUNDING | _WHOLE | {"ftz", "sat", "relu"},
    **dict.fromkeys(("setp", "set"), _COMPARISONS),
    "ldu": _SPACES | _ORDER | _CACHING,
    **dict.fromkeys(("ld", "st"), _SPACES | _ORDER | _CACHING | {"shared__cluster"}),
    "mapa": frozenset({"shared__cluster"}),
    **dict.fromkeys(("atom", "red"), _SPACES | _ORDER | _ATOMIC),
    "cp": frozenset({
        "async", "ca", "cg", "shared", "shared__cta", "shared__cluster", "global", "commit_group", "wait_group",
        "wait_all", "mbarrier", "arrive", "noinc", "bulk", "bulk_group", "mbarrier__complete_tx__bytes", "read",
        "prefetch", "L2", "tensor", "2d",
    }),
    "tensormap": frozenset({
        "replace", "tile", "global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride",
        "elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "shared__cta", "b1024", "cp_fenceproxy", "global",
        "tensormap__generic", "release", "gpu", "sync", "aligned",
    }),
    **dict.fromkeys(("bar", "barrier"), frozenset({
        "sync", "arrive", "red", "popc", "and", "or", "aligned", "cta", "warp", "cluster", "wait", "acquire", "release",
        "relaxed",
    })),
    "mbarrier": frozenset({
        "init", "inval", "arrive", "expect_tx", "test_wait", "try_wait", "parity", "shared", "shared__cta",
    }) | _ORDER,
    "shfl": frozenset({"sync", "up", "down", "bfly", "idx"}),
    "vote": frozenset({"sync", "all", "any", "uni", "ballot"}),
    "match": frozenset({"sync", "all", "any"}),
    "redux": frozenset({"sync", "add", "and", "or", "xor", "min", "max"}),
    "elect": frozenset({"sync"}),
    "mma": frozenset({"sync", "aligned", "m16n8k16", "m16n8k8", "row", "col"}),
    **dict.fromkeys(("ldmatrix", "stmatrix"), frozenset({
        "sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared__cta",
    })),
    "movmatrix": frozenset({"sync", "aligned", "m8n8", "trans"}),
    "wgmma": frozenset({
        "mma_async", "fence", "commit_group", "wait_group", "sync", "aligned",
        "e4m3", "e5m2", *(f"m64n{columns}k{inner}" for columns in range(8, 257, 8) for inner in (16, 32)),
    }),
    **dict.fromkeys(("fence", "membar", "prefetch", "prefetchu", "griddepcontrol", "setmaxnreg", "createpolicy"), _ANY),
}  # fmt: skip
"""Modifiers that each instruction may have beside its types; an instruction that is not listed has none."""


def is_known(instruction: PtxInstruction) -> bool:
    """Returns whether all modifiers of an instruction are known, types and cache hints apart."""
    words = KNOWN.get(instruction.name, frozenset())
    return words is _ANY or all(
        word in words or word in WIDTHS or word.startswith(("L1__", "L2__")) for word in instruction.modifiers
    )
