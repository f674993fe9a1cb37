"""Rungs are right, and each is one change of what it is compared with: what the page of claims says of their code."""

import json
from functools import cache

import pytest
from faults import REPOSITORY, answer
from test_docs_claims import rows
from verified_kernels import gate_statuses

pytestmark = pytest.mark.slow

RUNGS = str(REPOSITORY / "benchmarks" / "rungs")
V1, V2 = "decode-rungs:WARPS=1:ROWS=8", "decode-rungs:WARPS=4:ROWS=32:SHARED_KEYS=1"
TRITON, STAGED = "decode-rungs-triton", "decode-rungs-staged"
SAME_CODE = {"decode-v4": ["decode-rungs"], "decode-v3": [STAGED], "decode-triton:BV=8:WARPS=8": [TRITON]}
for _, rung, same, *_ in rows("By the machine code"):
    SAME_CODE.setdefault(same, []).append(rung)
HINTS = {"LOAD=evict_first": ".EF", "LOAD=no_allocate": ".NA", "KEEP_KEYS=1": ".EL", "STREAMING_STORES=1": ".EF"}
KEY_LOADS = {
    2: ("16", 8),
    4: ("32", 4),
    16: ("128", 2),
}  # by bytes of a load: its bits, and how many there are of k and q
RESOURCES = {  # registers and bytes of spills, as the study's kernels had them or near it
    V1: (64, 0),
    V2: (232, 0),
    f"{STAGED}:SYNC=5": (255, 16),
    f"{STAGED}:UNROLL=0:REGISTERS=56": (56, 0),
    "decode-rungs:REGISTERS=16": (24, 8),
}
RIGHT = [
    *("decode-rungs:KEY_BYTES=2", "decode-rungs:KEY_BYTES=4", "decode-rungs:KEY_BYTES=16", V2, f"{V2}:ORDER=all"),
    *("decode-rungs:KEEP_KEYS=1", "decode-rungs:LOAD=no_allocate", "decode-rungs:LOAD=evict_first"),
    *("decode-rungs:HEADS=2", "decode-rungs:HEADS=4", "decode-rungs:BLOCKS=131", "decode-rungs:REGISTERS=16"),
    *("decode-rungs:ARITHMETIC=separate", "decode-rungs:SHORT_GATES=1", f"{V1}:SCATTERED_OUTPUT=1"),
    *(f"{STAGED}:SYNC=5", f"{STAGED}:UNROLL=0:REGISTERS=56", "decode-rungs:STREAMING_STORES=1"),
    *(f"{TRITON}:TILE=kv", f"{TRITON}:BK=32", f"{TRITON}:BV=1:WARPS=4", f"{TRITON}:EVICT=keys"),
]


@pytest.fixture(autouse=True)
def with_rungs(monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", RUNGS)


@cache
def pairs(before, *rungs):
    """What `inspect --diff` says of each rung beside the kernel it is compared with."""
    done = answer("inspect", *rungs, "--diff", before, "--arch", "sm_90", "--sass", "--json", GDNBENCH_KERNELS=RUNGS)
    return {pair["after"]["label"]: pair for pair in json.loads(done.out)}


@pytest.mark.parametrize("before", SAME_CODE)
def test_the_machine_code_is_the_same(before):
    found = pairs(before, *SAME_CODE[before])
    assert {label: pair["same"] for label, pair in found.items()} == dict.fromkeys(SAME_CODE[before], True)


def test_a_hint_is_all_that_changes():
    found = pairs("decode-rungs", *(f"decode-rungs:{param}" for param in HINTS))
    for param, hint in HINTS.items():
        lines = found[f"decode-rungs:{param}"]["sass_diff"][2:]
        added = [line[1:] for line in lines if line.startswith("+")]
        assert added
        assert [line.replace(hint, "") for line in added] == [line[1:] for line in lines if line.startswith("-")]
        assert all(hint in line for line in added)


def test_q_and_k_are_loaded_in_as_many_bytes_as_asked():
    found = pairs("decode-rungs", *(f"decode-rungs:KEY_BYTES={size}" for size in KEY_LOADS))
    for size, (bits, loads) in KEY_LOADS.items():
        pair = found[f"decode-rungs:KEY_BYTES={size}"]
        before, after = (pair[side]["mix"] for side in ("before", "after"))
        assert "global load 64" not in after
        assert after[f"global load {bits}"] == before[f"global load {bits}"] + loads
        assert {name: after[name] for name in after if "store" in name} == {
            name: before[name] for name in before if "store" in name
        }


def test_registers_and_spills_are_those_that_the_page_names():
    done = answer("inspect", *RESOURCES, "--arch", "sm_90", "--json")
    assert {row["label"]: (row["regs"], row["spills"]) for row in json.loads(done.out)} == RESOURCES


@pytest.mark.parametrize("kernel", RIGHT)
def test_rungs_are_right_where_there_is_no_gpu(request, kernel):
    assert gate_statuses(request, kernel, "B=2 heads=qk2_v4") == {"ok"}


def test_v3_without_any_syncwarp_races_though_its_numbers_are_right():
    done = answer("verify", f"{STAGED}:SYNC=0", "--gpu", "cpu", "--shape", "B=1 heads=qk2_v4", "--quick", "--json")
    failed = {gate["gate"] for gate in json.loads(done.out)["gates"] if not gate["passed"]}
    assert failed == {"memory and barriers"}


@pytest.mark.parametrize("params", ["HEADS=2:SHARED_KEYS=1", "BLOCKS=64:SHARED_KEYS=1", "KEEP_KEYS=1:KEY_BYTES=2"])
def test_changes_that_do_not_go_together_do_not_build(params):
    done = answer("inspect", f"decode-rungs:{params}", "--arch", "sm_90")
    assert "static assertion failed" in done.out + done.err
