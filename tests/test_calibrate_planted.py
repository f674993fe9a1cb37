"""The planted kernel: decode-v9 with as many additions as it is asked for; no other verb finds it."""

import re
from collections import Counter

import pytest

from gdnbench.calibrate.measure import KERNEL, PLANTED_ROOT
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.cubin import disassemble
from gdnbench.codegen.nvrtc import compile_cuda

CATALOG = load_catalog([default_roots()[0], PLANTED_ROOT])
WORKLOAD = CATALOG.ops["decode"].workload({"B": 1})


@pytest.fixture
def instructions(tmp_path):
    """Compiles a kernel with some params and gives its instructions."""

    def compiled(kernel=KERNEL, **params):
        entry = CATALOG.entries[kernel]
        code = compile_cuda(entry, entry.kernel.resolve(params), WORKLOAD, "sm_90")
        path = tmp_path / f"{kernel}-{'-'.join(map(str, params.values()))}.cubin"
        path.write_bytes(code.cubin)
        return re.findall(r"/\*[0-9a-f]{4}\*/\s+(.*?)\s*;", disassemble(path, code.symbol))

    return compiled


def additions(found):
    return sum(bool(re.search(r"\b(FADD|FFMA)\b", line)) for line in found)


def test_no_other_verb_sees_it(command_line):
    assert KERNEL not in load_catalog().entries
    assert KERNEL not in command_line("list")[1]


def test_without_additions_it_is_v9(instructions):
    assert instructions() == instructions("decode-v9", LANES=8, WARPS=4)


def test_an_equal_kernel_has_the_same_code(instructions):
    assert instructions(COPY=3) == instructions()


@pytest.mark.parametrize("chain", [1, 7, 64])
def test_every_addition_is_in_the_code(instructions, chain):
    assert additions(instructions(CHAIN=chain)) == additions(instructions()) + chain


def test_each_addition_waits_for_the_one_before_and_the_stores_for_the_last(instructions):
    found = instructions(CHAIN=32)
    onto_itself = [re.fullmatch(r"FADD (R\d+), \1, UR\d+", line) for line in found]
    ((register, count),) = Counter(each[1] for each in onto_itself if each).items()
    assert count == 31  # the first is one with the multiplication before it
    last = max(place for place, each in enumerate(onto_itself) if each)
    assert all(place > last for place, line in enumerate(found) if line.startswith("STG"))
    assert f"{register}.reuse" in found[last + 1]
