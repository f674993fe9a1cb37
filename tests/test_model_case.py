import json
import re
from itertools import product

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from run_data import measured, store

from gdnbench.catalog.request import parse_workload
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.status import Role
from gdnbench.store.schema import DECODE_AXES

VARIANTS = (
    Variant("decode-v4", "decode-v4", params=Params({"WARPS": 8})),
    Variant("decode-v4", "decode-v4b", preset="decode-v4b", params=Params({"WARPS": 4})),
    Variant("decode-v4", "decode-v4:WARPS=4", params=Params({"WARPS": 4})),
    Variant("decode-t", "decode-t:MODE=exact", params=Params({"MODE": "exact", "BV": 16})),
    Variant("decode-fla", "decode-fla"),
)
WORKLOADS = (
    decode_at(),
    decode_at(B=11),
    decode_at(HQ=1, HV=1),
    decode_at(B=1, HQ=11, HV=11),
    decode_at(K=64),
    decode_at(V=64),
)


def test_ids_are_unique_within_a_run():
    cases = [Case(variant, workload) for variant, workload in product(VARIANTS, WORKLOADS)]
    cases += [Case(VARIANTS[-1], workload, Role.CONTROL) for workload in WORKLOADS]
    assert len({case.id for case in cases}) == len(cases)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.label)
def test_a_case_survives_json(variant, role):
    case = Case(variant, decode_at(B=3, HQ=2, HV=4, K=64, V=32), role)
    assert Case.from_dict(json.loads(json.dumps(case.to_dict())), DECODE_AXES) == case
    assert Case.from_dict(case.to_dict(), DECODE_AXES).id == case.id


@pytest.mark.parametrize(
    ("kernel", "role", "is_point"),
    [
        ("decode-v4", Role.KERNEL, True),
        ("decode-v4", Role.BASELINE, False),
        ("decode-v4", Role.CONTROL, False),
        ("decode-floor-copy", Role.FLOOR, True),
        ("decode-floor-empty", Role.FLOOR, False),
        ("decode-v1", Role.KERNEL, False),
    ],
)
def test_the_points_of_a_sweep_are_of_its_kernels_and_not_what_stands_beside_them(kernel, role, is_point):
    case = Case(Variant(kernel, f"{kernel}:WARPS=4"), decode_at(), role)
    assert case.is_point_of({"decode-v4": ("WARPS",), "decode-floor-copy": ("WARPS",)}) is is_point


OP = CATALOG.ops["prefill"]
LONG = [each for each in OP.suite("contest").workloads if "n-" in str(each)]


def test_every_label_of_a_suite_is_understood_as_it_is_printed():
    assert LONG
    for workload in LONG:
        lengths = re.search(r"lengths=\S+", str(workload))[0]
        assert parse_workload(OP, f"heads={workload.aliases['heads']} {lengths}", "one") == workload


def _store(folder, workload):
    entry = CATALOG.entries["prefill-triton"]
    variant = Variant("prefill-triton", "prefill-triton", params=Params(dict(entry.default.params)))
    store(folder, [measured(Case(variant, workload), 40.0)], op="prefill", workloads=OP.workloads)


def test_a_run_says_what_a_shortened_label_stands_for(tmp_path, command_line):
    folder = tmp_path / "20260102-030405-h200-prefill"
    folder.mkdir()
    workload = LONG[0]
    _store(folder, workload)
    code, out, err = command_line("show", folder.name, "--legend", "--out", tmp_path)
    assert code == 0, err
    lengths = re.search(r"lengths=\S+", str(workload))[0]
    told = f"{lengths}: {len(workload.lengths)} lengths, {sum(workload.lengths):,} in all, and a hash of them;"
    assert told in " ".join(out.split())
    cells = "+".join(str(each) for each in workload.lengths[:2])
    assert cells in (folder / "measurements.csv").read_text()
