"""What `--kernel` understands."""

import pytest

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import select_variants
from gdnbench.errors import DeclarationError, ExitCode, ParamError, UnknownNameError

CATALOG = load_catalog(default_roots()[:1])


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


def test_a_name_is_the_kernel_at_its_defaults():
    (variant,) = select("decode-v4")
    assert (variant.kernel, variant.label, variant.preset, dict(variant.params)) == (
        *("decode-v4", "decode-v4", ""),
        {"WARPS": 8},
    )


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
    folder = tmp_path / "decode" / "v7_fast"
    folder.mkdir(parents=True)
    (folder / "variant.py").write_text("kernel = 1 / 0\n")
    return load_catalog([default_roots()[0], tmp_path]), folder


@pytest.mark.parametrize("name", ["decode-v7-fast", "decode-v7_fast"])
def test_the_name_of_a_broken_kernel_is_answered_with_what_broke_it(with_broken, name):
    catalog, folder = with_broken
    with pytest.raises(DeclarationError, match="ZeroDivisionError") as caught:
        select_variants(catalog, "decode", name)
    assert str(folder) in caught.value.hint
