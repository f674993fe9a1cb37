"""The joint grids that `--param` spans."""

import pytest

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import choose_bases, grid_axes, grid_points, parse_params
from gdnbench.errors import ExitCode, ParamError, UsageError

OP = default_roots()[0] / "decode" / "op.py"
KERNEL = """from gdnbench import Param, TorchKernel
kernel = TorchKernel(name='decode-{}'{})
"""
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
        folder = root / "decode" / name
        folder.mkdir(parents=True)
        (folder / "kernel.py").write_text("")
        (folder / "variant.py").write_text(KERNEL.format(name, more))
    (root / "decode" / "op.py").write_text(OP.read_text())
    return load_catalog([root])


@pytest.fixture
def labels(catalog):
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
    ("texts", "wanted"),
    [
        ([], {}),
        (["BV"], {"BV": ()}),
        (["BV=4"], {"BV": ("4",)}),
        (["BV=4, 8", "WARPS"], {"BV": ("4", "8"), "WARPS": ()}),
        (["MODE=fast"], {"MODE": ("fast",)}),
    ],
)
def test_options_are_read(texts, wanted):
    assert parse_params(texts) == wanted


@pytest.mark.parametrize("text", ["", "=4", "BV=", "BV=4,", "BV=,4", "BV=4,,8", "BV= ", "="])
def test_an_option_that_lacks_a_name_or_a_value_is_answered_with_an_example(text):
    with pytest.raises(UsageError, match="--param") as caught:
        parse_params([text])
    assert "--param BV=4,8,16" in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_param_that_is_given_twice_is_an_error():
    with pytest.raises(UsageError, match="--param BV is given twice") as caught:
        parse_params(["BV=4", "BV=8"])
    assert "--param BV=" in caught.value.hint


def test_a_param_without_values_takes_all_that_the_kernel_declares(labels):
    assert labels(["decode-both"], "BV") == ["decode-both:BV=4", "decode-both:BV=8", "decode-both:BV=16"]


def test_values_are_tried_as_given_and_none_twice(labels):
    assert labels(["decode-both"], "BV=16,4,16") == ["decode-both:BV=16", "decode-both:BV=4"]


def test_several_params_span_a_joint_grid_in_the_order_declared(labels):
    found = labels(["decode-both"], "WARPS", "BV=4,8")
    assert found == [f"decode-both:BV={bv}:WARPS={warps}" for bv in (4, 8) for warps in (1, 4)]


def test_a_preset_is_a_base(catalog):
    ((entry, base),) = choose_bases(catalog, "decode", ["decode-both-wide"], parse_params(["WARPS"]))
    points = grid_points(entry, base, grid_axes(catalog, entry, parse_params(["WARPS"])))
    assert [dict(point.params) for point in points] == [{"BV": 16, "WARPS": warps} for warps in (1, 4)]
    assert [point.label for point in points] == [f"decode-both-wide:WARPS={warps}" for warps in (1, 4)]


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


def test_an_unknown_param_is_answered_with_the_kernels_own(catalog):
    with pytest.raises(ParamError, match="decode-both has no param MODE") as caught:
        grid_axes(catalog, catalog.entries["decode-both"], parse_params(["MODE"]))
    assert "BV, WARPS" in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_value_outside_the_choices_is_answered_with_them(catalog):
    with pytest.raises(ParamError, match="BV=5") as caught:
        grid_axes(catalog, catalog.entries["decode-both"], parse_params(["BV=4,5"]))
    assert "4, 8, 16" in caught.value.hint


def test_a_kernel_without_params_is_answered_with_those_that_have_some(catalog):
    with pytest.raises(UsageError, match="decode-none has no params to sweep") as caught:
        grid_axes(catalog, catalog.entries["decode-none"], parse_params(["BV"]))
    assert "decode-both has BV, WARPS" in caught.value.hint
