"""What names, globs and params on the command line select: variants, a sweep's grid, and the op."""

import shutil

import pytest
from bundled import CATALOG
from faults import REPOSITORY
from write_kernels import on_torch, write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import (
    choose_bases,
    grid_axes,
    grid_points,
    op_option,
    parse_params,
    resolve_op,
    select_variants,
)
from gdnbench.errors import DeclarationError, ExitCode, ParamError, UnknownNameError, UsageError


def select(wanted):
    return select_variants(CATALOG, "decode", wanted)


def labels(wanted):
    return [variant.label for variant in select(wanted)]


def test_all_is_every_kernel_and_every_preset():
    entries = {name: entry for name, entry in CATALOG.entries.items() if entry.op.name == "decode"}
    kernels = set(entries)
    presets = {name for entry in entries.values() for name in entry.kernel.presets}
    assert presets
    assert set(labels("all")) == kernels | presets


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("decode-v1*", ["decode-v1", "decode-v1b", "decode-v1c", "decode-v1d", "decode-v10", "decode-v11"]),
        ("decode-v?b", ["decode-v1b", "decode-v2b", "decode-v4b"]),
        ("decode-v[14]", ["decode-v1", "decode-v4"]),
        ("decode-v4,decode-fla", ["decode-v4", "decode-fla"]),
        (" decode-v4 , ,decode-fla,", ["decode-v4", "decode-fla"]),
        ("decode-v4,decode-v4", ["decode-v4"]),
        ("decode-v4,decode-v4*", ["decode-v4", "decode-v4b"]),
        ("decode-v4*:WARPS=2", ["decode-v4:WARPS=2", "decode-v4b:WARPS=2"]),
    ],
)
def test_names_globs_and_lists(wanted, expected):
    assert labels(wanted) == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [("decode-v44", "decode-v4"), ("decode-tritn", "decode-triton"), ("decode_fla", "decode-fla"), ("xyzzy", "list")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, hint):
    with pytest.raises(UnknownNameError, match=name) as caught:
        select(f"decode-v4,{name}")
    assert hint in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("decode-v4:WARPS", "sets no param"),
        ("decode-v4:WARPS=", "sets no param"),
        ("decode-v4:=4", "sets no param"),
        ("decode-v4:", "sets no param"),
        ("decode-v4:WARPS=3", "WARPS=3"),
        ("decode-v4:BV=8", "no param BV"),
        ("decode-fla:BV=8", "no param BV"),
    ],
)
def test_a_param_that_cannot_be_set_is_an_error_with_a_hint(wanted, why):
    with pytest.raises(ParamError, match=why) as caught:
        select(wanted)
    assert caught.value.hint


@pytest.fixture
def with_broken(tmp_path):
    folder = write_kernel(tmp_path / "decode" / "v7_fast", "kernel = 1 / 0\n")
    return load_catalog([default_roots()[0], tmp_path]), folder


@pytest.mark.parametrize("name", ["decode-v7-fast", "decode-v7_fast"])
def test_the_name_of_a_broken_kernel_is_answered_with_what_broke_it(with_broken, name):
    catalog, folder = with_broken
    with pytest.raises(DeclarationError, match="ZeroDivisionError") as caught:
        select_variants(catalog, "decode", name)
    assert str(folder) in caught.value.hint


OP = default_roots()[0] / "decode" / "op.py"
BV = "'BV': Param(default=8, choices=(4, 8, 16))"
WARPS = "'WARPS': Param(default=4, choices=(1, 4))"
MODE = "'MODE': Param(default='fast', choices=('fast', 'exact'))"
KERNELS = {
    "both": f", params={{{BV}, {WARPS}}}, presets={{'decode-both-wide': {{'BV': 16}}}}",
    "one": f", params={{{WARPS}, {MODE}}}",
    "none": "",
    "floor": f", params={{{BV}}}, floor='empty'",
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    root = tmp_path_factory.mktemp("kernels")
    return made(root, KERNELS)


def made(root, kernels):
    for name, more in kernels.items():
        write_kernel(root / "decode" / name, on_torch(f"decode-{name}", more))
    (root / "decode" / "op.py").write_text(OP.read_text())
    return load_catalog([root])


@pytest.fixture
def points(catalog):
    """The points of each kernel, by what the user typed."""

    def span(names, *params):
        wanted = parse_params(params)
        return [
            point.label
            for entry, base in choose_bases(catalog, "decode", names, wanted)
            for point in grid_points(entry, base, grid_axes(catalog, entry, wanted))
        ]

    return span


@pytest.mark.parametrize(
    ("texts", "told", "hint"),
    [
        *(([text], "--param", "--param BV=4,8,16") for text in ("", "=4", "BV=", "BV=4,", "BV=,4", "BV=4,,8", "BV= ")),
        (["BV=4", "BV=8"], "--param BV is given twice", "--param BV="),
    ],
)
def test_an_option_that_is_no_param_is_answered_with_an_example(texts, told, hint):
    with pytest.raises(UsageError, match=told) as caught:
        parse_params(texts)
    assert hint in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("params", "found"),
    [
        (["BV"], ["BV=4", "BV=8", "BV=16"]),  # all that the kernel declares
        (["BV=16,4,16"], ["BV=16", "BV=4"]),  # as given, and none twice
        (["WARPS", "BV=4,8"], [f"BV={bv}:WARPS={warps}" for bv in (4, 8) for warps in (1, 4)]),
    ],
)
def test_params_span_a_grid_in_the_order_declared(points, params, found):
    assert points(["decode-both"], *params) == [f"decode-both:{each}" for each in found]


def test_a_preset_is_a_base(catalog):
    ((entry, base),) = choose_bases(catalog, "decode", ["decode-both-wide"], parse_params(["WARPS"]))
    found = grid_points(entry, base, grid_axes(catalog, entry, parse_params(["WARPS"])))
    assert [dict(point.params) for point in found] == [{"BV": 16, "WARPS": warps} for warps in (1, 4)]
    assert [point.label for point in found] == [f"decode-both-wide:WARPS={warps}" for warps in (1, 4)]


def test_globs_and_lists_name_several(catalog):
    for names in (["decode-both*"], ["decode-both,decode-both-wide"], ["decode-both", "decode-both-wide"]):
        bases = choose_bases(catalog, "decode", names, parse_params(["WARPS"]))
        assert [base.label for _, base in bases] == ["decode-both", "decode-both-wide"]


def test_a_glob_means_those_of_its_matches_that_have_the_params(catalog):
    for name in ("decode-*", "all"):
        bases = choose_bases(catalog, "decode", [name], parse_params(["BV"]))
        assert {entry.kernel.name for entry, _ in bases} == {"decode-both"}
    with pytest.raises(UsageError, match="no kernel has the params BV"):
        choose_bases(catalog, "decode", ["decode-one*"], parse_params(["BV"]))


@pytest.mark.parametrize(
    ("params", "kernels"),
    [(["WARPS"], {"decode-both", "decode-one"}), (["BV"], {"decode-both"}), ([], {"decode-both", "decode-one"})],
)
def test_without_a_name_every_kernel_that_has_the_params_is_swept_but_no_floor(catalog, params, kernels):
    bases = choose_bases(catalog, "decode", [], parse_params(params))
    assert {base.label for _, base in bases} == kernels


@pytest.mark.parametrize("params", [["XYZ"], ["BV", "MODE"]])
def test_params_that_no_kernel_has_are_answered_with_those_there_are(catalog, params):
    with pytest.raises(UsageError, match=f"no kernel has the params {', '.join(params)}") as caught:
        choose_bases(catalog, "decode", [], parse_params(params))
    assert "decode-both has BV, WARPS" in caught.value.hint
    assert "decode-one has WARPS, MODE" in caught.value.hint


def test_a_kernel_without_params_is_answered_with_those_that_have_some(catalog):
    with pytest.raises(UsageError, match="decode-none has no params to sweep") as caught:
        grid_axes(catalog, catalog.entries["decode-none"], parse_params(["BV"]))
    assert "decode-both has BV, WARPS" in caught.value.hint


TOYS = REPOSITORY / "tests" / "toys"


@pytest.fixture(scope="module")
def ops():
    return load_catalog([*default_roots()[:1], TOYS])


@pytest.mark.parametrize(
    ("named", "op"),
    [
        ([], "decode"),
        ([""], "decode"),
        (["all"], "decode"),
        (["*"], "decode"),
        (["decode-v4"], "decode"),
        (["gemm-torch"], "gemm"),
        (["gemm-tuned:COLUMNS=4"], "gemm"),
        (["gemm-*"], "gemm"),
        (["gemm-torch , gemm-cuda"], "gemm"),
        (["all", "ragged-torch"], "ragged"),
        (["*-cuda", "gemm-torch"], "gemm"),  # the glob alone means kernels of two ops
        (["*-cuda,*-columns"], "ragged"),
        (["decode-v4b"], "decode"),  # a preset
        *((["decode-*"], "decode"), (["decode-floor-*", "decode-f*"], "decode"), (["decode-v*"], "decode")),
        *((["decode-pool-*"], "decode-pool"), (["decode-pool-v*", "decode-*"], "decode-pool")),  # it begins with it
    ],
)
def test_it_is_the_one_that_has_all_kernels_named(ops, named, op):
    assert resolve_op(ops, "", named) == op


@pytest.mark.parametrize(
    ("named", "told", "hint"),
    [
        (["*-cuda"], r"\*-cuda is of gemm and ragged", "say which with --op: gemm or ragged"),
        (["gemm-torch", "decode-v4"], "gemm-torch is of gemm; decode-v4 is of decode", "--op: gemm or decode"),
        (["ragged-*,gemm-*"], r"ragged-\* is of ragged; gemm-\* is of gemm", "--op: ragged or gemm"),
        (["*-cuda", "decode-v4"], r"\*-cuda is of gemm and ragged; decode-v4 is", "--op: gemm or ragged or decode"),
    ],
)
def test_kernels_of_several_ops_are_refused_with_the_ops(ops, named, told, hint):
    with pytest.raises(UsageError, match=told) as caught:
        resolve_op(ops, "", named)
    assert caught.value.hint.endswith(hint)


@pytest.mark.parametrize("named", [["gemm-trton"], ["gemm-torch", "gemm-trton"], ["decode-v4,gemm-trton:BM=2"]])
def test_a_name_that_nothing_has_is_refused_with_the_nearest_of_every_op(ops, named):
    with pytest.raises(UnknownNameError, match="there is no kernel gemm-trton") as caught:
        resolve_op(ops, "", named)
    assert "gemm-triton" in caught.value.hint


def test_the_only_op_of_a_catalog_is_meant_where_no_kernel_is_named(tmp_path):
    shutil.copytree(TOYS / "gemm", tmp_path / "gemm")
    only = load_catalog([tmp_path])
    assert resolve_op(only, "", []) == resolve_op(only, "", ["all"]) == "gemm"
    with pytest.raises(UsageError, match="there are 2 ops") as caught:
        resolve_op(load_catalog([TOYS]), "", ["all"])
    assert caught.value.hint == "say which with --op: gemm or ragged"


def test_a_command_without_a_kernel_names_an_op_that_is_not_the_usual_one():
    assert op_option("gemm") == ["--op", "gemm"]
    assert op_option("decode") == []
