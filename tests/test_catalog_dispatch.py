"""Dispatchers: which kernel they pick where, under which name, and tables that cannot hold."""

import pytest
from decode_workloads import decode_at
from dispatch_data import DECLARATION, write_dispatcher

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import select_variants
from gdnbench.errors import DeclarationError
from gdnbench.model.declaration import Param
from gdnbench.model.kernel import DispatchKernel
from gdnbench.model.workload import Shape

BUNDLED = default_roots()[0]
HEADER = '[h200.qk4_v8]\nsource = "20260102-030405-h200-decode"\n'
TABLE = f"""
{HEADER}B1 = {{ kernel = "decode-v4", WARPS = 2 }}
B8 = {{ kernel = "decode-v6", source = "20260102-040506-h200-decode" }}
B64 = {{ kernel = "decode-triton", BV = 16, WARPS = 8 }}

[h200.qk16_v32]
source = "20260103-030405-h200-decode"
B2 = {{ kernel = "decode-v1", BV = 4 }}

[b200.qk4_v8]
source = "20260104-030405-b200-decode"
B1 = {{ kernel = "decode-v5", HINT = "none" }}
"""


@pytest.fixture
def made(tmp_path):

    def make(table=TABLE, **more):
        write_dispatcher(tmp_path, table, more.get("variant", DECLARATION))
        return load_catalog([BUNDLED, tmp_path])

    return make


@pytest.fixture
def pick(made):
    catalog = made()
    return lambda workload, gpu="h200": catalog.at(catalog.entries["decode-mine"].default, workload, gpu)[1]


@pytest.mark.parametrize(
    ("workload", "wanted"),
    [
        (decode_at(B=1), "decode-v4 WARPS=2"),
        (decode_at(B=8), "decode-v6 WARPS=8"),
        (decode_at(B=64), "decode-triton BV=16 WARPS=8 STAGES=1"),
        (decode_at(B=2, HQ=16, HV=32), "decode-v1 BV=4"),
        (decode_at(B=2), "decode-v4 WARPS=2"),
        (decode_at(B=3), "decode-v6 WARPS=8"),  # 24 heads: nearer to 64 than to 8
        (decode_at(B=1000), "decode-triton BV=16 WARPS=8 STAGES=1"),
        (
            decode_at(B=1, HQ=32, HV=64),
            "decode-v1 BV=4",
        ),  # B * HV = 64 in another layout, as at qk4_v8 B=8: the smaller
    ],
)
def test_a_workload_takes_its_row_or_that_of_the_nearest(pick, workload, wanted):
    assert pick(workload).in_full == wanted


def test_each_gpu_has_its_own_rows_and_one_without_takes_the_first_ones(pick):
    assert pick(decode_at(B=64), "b200").in_full == "decode-v5 HINT=none WARPS=8"
    for gpu in ("rtx3090", ""):
        assert pick(decode_at(B=1), gpu) == pick(decode_at(B=1), "h200")


def test_who_looks_at_one_kernel_sees_it_under_its_own_name(made):
    catalog = made()
    named = {
        workload: catalog.behind(catalog.entries["decode-mine"].default, decode_at(B=workload))[1]
        for workload in (1, 8, 64)
    }
    assert [named[batch].label for batch in (1, 8, 64)] == ["decode-v4:WARPS=2", "decode-v6", "decode-triton"]
    for batch, variant in named.items():
        (again,) = select_variants(catalog, "decode", variant.label)
        assert catalog.at(again, decode_at(B=batch))[1] == variant
        assert not variant.is_picked


def test_params_that_are_the_plain_defaults_but_not_those_of_the_workload_are_all_named(made):
    """The bare name would mean others there."""
    catalog = made(f'{HEADER}B1 = {{ kernel = "decode-triton" }}\n')
    variant = catalog.behind(catalog.entries["decode-mine"].default, decode_at())[1]
    assert variant.label == "decode-triton:BV=8:WARPS=8:STAGES=1"
    assert catalog.at(variant, decode_at())[1].params == {"BV": 8, "WARPS": 8, "STAGES": 1}


BROKEN = {
    "no file": (None, "dispatch.toml, which is not in"),
    "no TOML": ("[h200", "dispatch.toml: "),
    "empty": ("", "dispatch.toml has no rows"),
    "no GPU": ('h200 = "x"\n', "[h200]: not a table"),
    "layout": ('[h200.big]\nB1 = { kernel = "decode-v4", source = "r" }\n', "big sets no axis"),
    "heads": ('[h200.qk4_v7]\nB1 = { kernel = "decode-v4", source = "r" }\n', "HV=7 is no multiple"),
    "batch": (f'{HEADER}8 = {{ kernel = "decode-v4" }}\n', "8 sets no axis"),
    "no batch": (f'{HEADER}B0 = {{ kernel = "decode-v4" }}\n', "B=0"),
    "row": (f"{HEADER}B8 = 3\n", "[h200.qk4_v8] B8: not a table"),
    "no source": ('[h200.qk4_v8]\nB8 = { kernel = "decode-v4" }\n', "B8: no source"),
    "no kernel": (f"{HEADER}B8 = {{ WARPS = 4 }}\n", "B8: there is no kernel "),
    "unknown kernel": (f'{HEADER}B8 = {{ kernel = "decode-v99" }}\n', "B8: there is no kernel decode-v99"),
    "unknown param": (f'{HEADER}B8 = {{ kernel = "decode-v4", BV = 4 }}\n', "decode-v4 has no param BV"),
    "bad value": (f'{HEADER}B8 = {{ kernel = "decode-v4", WARPS = 3 }}\n', "WARPS=3"),
    "itself": (f'{HEADER}B8 = {{ kernel = "decode-mine" }}\n', "decode-mine picks kernels itself"),
    "another dispatcher": (f'{HEADER}B8 = {{ kernel = "decode-auto" }}\n', "decode-auto picks kernels itself"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_table_that_cannot_hold_is_listed_as_broken_with_its_place(made, kind):
    table, reason = BROKEN[kind]
    catalog = made(table)
    (broken,) = catalog.broken
    assert broken.name == "decode/mine"
    assert reason in broken.reason
    assert "decode-mine" not in catalog.entries
    assert "decode-v4" in catalog.entries


@pytest.mark.parametrize(
    "given",
    [
        {"params": {"BV": Param(default=1, choices=(1,))}},
        {"presets": {"decode-x": {}}},
        {"floor": "copy"},
        {"in_place": {"new_state": "state"}},
        {"entry": "f"},
        {"by_shape": {Shape(): {}}},
    ],
)
def test_a_dispatcher_declares_nothing_that_is_its_kernels(given):
    with pytest.raises(
        DeclarationError, match=f"{next(iter(given))}: a dispatcher takes those of the kernel that it picks"
    ):
        DispatchKernel(name="decode-x", **given)


def test_the_bundled_dispatcher_names_runs_that_are_stored():
    dispatch = load_catalog([BUNDLED]).entries["decode-auto"].dispatch
    sources = {pick.source for rows in dispatch.picks.values() for pick in rows.values()}
    assert sources
    for source in sources:
        assert [*(BUNDLED.parent / "results" / "evidence" / source).glob("measurements.csv*")]
