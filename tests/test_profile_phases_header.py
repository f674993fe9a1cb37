"""What the marks of phases.cuh compile to: nothing, and clock reads where they stand."""

import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from able_workloads import able_workload
from bundled import CATALOG
from decode_workloads import decode_at
from launches_data import TOYS

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.build import Job, build
from gdnbench.codegen.cubin import disassemble
from gdnbench.codegen.sass import read_instructions
from gdnbench.errors import BuildError, UsageError
from gdnbench.model.case import Case
from gdnbench.model.kernel import CudaKernel
from gdnbench.profile.collect import marked_launches

pytestmark = pytest.mark.slow

MARKED = [
    entry
    for entry in CATALOG.entries.values()
    if isinstance(entry.kernel, CudaKernel) and "GDNBENCH_PHASE_NAMES" in entry.source.read_text()
]
ARCHS = ["sm_86", "sm_90", "sm_100"]
SPILLED = {"nvfp4-grouped-gemm-v2": 40}
"""Bytes that stamps spill at most, where a kernel has all registers that its bound allows; 16 elsewhere."""
MARK = re.compile(r"^ *GDNBENCH_PHASE.*\n|^#include <gdnbench/phases.cuh>\n", re.MULTILINE)
each_marked = pytest.mark.parametrize("entry", MARKED, ids=lambda entry: entry.kernel.name)
each_arch = pytest.mark.parametrize("arch", ARCHS)


def _marked_builds(entry, arch, **options):
    workload = able_workload(entry)
    launches = marked_launches(entry, Case(entry.default, workload), arch)
    return [build(Job(entry, entry.default, workload, arch, launch=launch, **options)) for launch in launches]


def _instructions(entry, arch, **options):
    built = build(Job(entry, entry.default, able_workload(entry), arch, **options))
    return _code_of(built)


def _code_of(built):
    return [*read_instructions(disassemble(Path(built.cubin), built.symbol))]


def _is_mark(one):
    return one.operands.endswith("SR_CLOCKLO")


def _copy(entry, folder, change):
    """The kernel in a folder of its own, its source changed."""
    kernels = entry.folder.parent.parent
    copied = folder / entry.folder.relative_to(kernels)
    shutil.copytree(entry.folder, copied, dirs_exist_ok=True)
    for header in kernels.glob("*/*.cuh"):  # of other ops, too
        (folder / header.parent.name).mkdir(exist_ok=True)
        shutil.copy(header, folder / header.parent.name)
    source = copied / entry.kernel.source
    source.write_text(change(source.read_text()))
    return replace(entry, folder=copied)


def test_every_kernel_on_the_ladder_is_marked():
    names = {entry.kernel.name.removeprefix("decode-") for entry in MARKED}
    assert names >= {"v1", "v2", "v3", "v4", "v5", "v6", "rowreg"}


@pytest.mark.parametrize(  # the preprocessor takes them away, whatever the architecture
    ("entry", "arch"),
    [(entry, arch) for entry in MARKED for arch in (ARCHS if entry.kernel.name == "decode-v4" else ["sm_90"])],
    ids=lambda part: getattr(part, "kernel", None) and part.kernel.name,
)
def test_marks_compile_to_nothing(entry, arch, same_folder):
    unmarked = _copy(entry, same_folder, lambda text: MARK.sub("", text))
    assert "GDNBENCH" not in unmarked.source.read_text()
    assert _instructions(entry, arch) == _instructions(unmarked, arch)


@pytest.mark.parametrize("marks", [1, 2])
@each_arch
@each_marked
def test_a_stamped_kernel_reads_its_clock_at_each_mark_and_spills_hardly_anything(entry, arch, marks):
    if not entry.kernel.fits(arch):
        pytest.skip(f"its instructions are not those of {arch}")
    if marks == 2 and arch != "sm_90":
        pytest.skip("one architecture is enough for the second way to keep what is read")
    source = entry.source.read_text()
    stand = len(re.findall(r"^ *GDNBENCH_PHASE(?:_USING)?\(", source, re.MULTILINE))
    built = _marked_builds(entry, arch, stamped=marks)
    reads = [one for each in built for one in _code_of(each) if _is_mark(one)]
    begun = re.findall(r"GDNBENCH_PHASES_BEGIN\(\);.*?^}", source, re.MULTILINE | re.DOTALL)  # to its function's end
    early = len(re.findall(r"^ +return;", "".join(begun), re.MULTILINE))
    wanted = stand + 2 * len(begun) + early  # and where the warp begins and ends, or leaves before
    assert wanted <= len(reads) <= wanted + 5  # ptxas may write what follows a branch, or turns a loop, twice
    assert max(each.spill_bytes for each in built) <= SPILLED.get(entry.kernel.name, 16)


@pytest.mark.parametrize("kernel", ["prefill-v6", "prefill-v7"])
def test_a_mark_reads_the_clock_once_even_where_warps_add_up_beside_products(kernel):
    """ptxas reads a clock again where a value is used, later, where it is that of all lanes: sums were negative."""
    entry = CATALOG.entries[kernel]
    launch = entry.kernel.launches[-1].entry
    added, noted = (
        [
            one
            for one in _code_of(build(Job(entry, entry.default, able_workload(entry), "sm_90", launch, stamped=marks)))
            if _is_mark(one)
        ]
        for marks in (1, 2)
    )
    assert len(added) == len(noted) > 20


def test_the_marks_of_v4_stand_between_what_they_part():
    code = _instructions(CATALOG.entries["decode-v4"], "sm_90", stamped=True)
    marks = [place for place, one in enumerate(code) if _is_mark(one)]
    begin, gates, load_qkv, load_state, update, store_state, store_output, end = marks
    loads = [place for place, one in enumerate(code) if one.name == "LDG" and "CONSTANT" in one.modifiers]
    state_store, output_store = (place for place, one in enumerate(code) if one.name == "STG" and place < end)
    shuffles = [place for place, one in enumerate(code) if one.name == "SHFL" and place < end]
    assert begin < min(loads)
    assert max(loads) < gates  # so no load waits for a mark
    assert any(one.name == "MUFU" for one in code[begin:gates])
    assert not any(one.name in {"MUFU", "SHFL"} for one in code[gates:load_state])
    assert sum(load_state < place < update for place in shuffles) == 5  # a sum over 32 lanes
    assert sum(store_state < place < store_output for place in shuffles) == 5
    assert update < state_store < store_state < output_store < store_output
    assert code[state_store].modifiers[-1] == "128"
    assert load_qkv < load_state


def test_a_mark_that_uses_values_is_behind_a_branch_that_needs_them():
    code = _instructions(CATALOG.entries["decode-v4"], "sm_90", stamped=True)
    marks = [place for place, one in enumerate(code) if _is_mark(one)]
    for first, place in pairwise(marks[:5]):
        names = [one.name for one in code[first:place]]
        needs = next(offset for offset, one in enumerate(code[first:place]) if "0x7fedcba9" in one.operands)
        assert "BRA" in names[needs:] or "NANOSLEEP" in names[needs:]
    state = next(one for one in code if one.name == "LDG" and one.modifiers[1] == "128")
    needed = next(one for one in code[marks[2] : marks[3]] if "0x7fedcba9" in one.operands)
    assert state.operands.split(",")[0] in needed.operands  # the first of the four registers that the load fills


def test_a_mark_of_a_phase_that_is_not_listed_does_not_compile(tmp_path):
    wrong = _copy(
        CATALOG.entries["decode-v4"], tmp_path, lambda text: text.replace("PHASE(store_state)", "PHASE(stor)")
    )
    build(Job(wrong, wrong.default, decode_at(), "sm_90"))
    with pytest.raises(BuildError, match="stor"):
        build(Job(wrong, wrong.default, decode_at(), "sm_90", stamped=True))


def test_a_phase_in_a_loop_adds_up_and_values_may_be_of_any_type(same_folder):
    def change(text):
        loop = "  for (int i = 0; i < batches; ++i) { GDNBENCH_PHASE_USING(update, i, scale, batches == 1, state); }\n"
        return text.replace("  GDNBENCH_PHASE(store_output);\n", loop)

    entry = _copy(CATALOG.entries["decode-v4"], same_folder, change)
    code = _instructions(entry, "sm_90", stamped=True)
    assert sum(map(_is_mark, code)) >= 8


@pytest.mark.parametrize(
    ("name", "said", "instead"),
    [
        ("decode-floor-copy", "has no marks", "<gdnbench/phases.cuh>"),
        ("decode-cutile", "is in cuTile, .* no marks", "inspect decode-cutile --schedule"),
    ],
)
def test_a_kernel_without_marks_is_refused_with_what_to_do(name, said, instead):
    entry = CATALOG.entries[name]
    with pytest.raises(UsageError, match=f"{name} {said}") as caught:
        marked_launches(entry, Case(entry.default, entry.op.default), "sm_90")
    assert instead in caught.value.hint
    marked = CATALOG.entries["decode-v4"]
    assert marked_launches(marked, Case(marked.default, decode_at()), "sm_90") == ("gdn_decode_v4",)


SPLIT = load_catalog([default_roots()[0], TOYS]).entries["gemm-split"]


def _marked_split(folder, *entries):

    names = ", ".join(f"{entry}_end" for entry in ("partial_sums", "add_sums"))

    def change(text):
        for entry in entries:
            body = rf"({entry}\([^{{]*\{{\n)(.*?)\n\}}\n"
            marked = rf"\1GDNBENCH_PHASES_BEGIN();\n\2\nGDNBENCH_PHASE({entry}_end);\n}}\n"
            text = re.sub(body, marked, text, count=1, flags=re.DOTALL)
        return f"#include <gdnbench/phases.cuh>\nGDNBENCH_PHASE_NAMES({names});\n{text}"

    return _copy(SPLIT, folder, change)


@pytest.mark.parametrize("entries", [("partial_sums",), ("add_sums",), ("partial_sums", "add_sums")])
def test_of_several_launches_those_with_marks_are_stamped(tmp_path, entries):
    entry = _marked_split(tmp_path, *entries)
    case = Case(entry.default, entry.op.default)
    assert marked_launches(entry, case, "sm_90") == entries
    assert marked_launches(entry, case, "sm_90", entries[-1]) == entries[-1:]
    others = {"partial_sums", "add_sums"} - {*entries}
    for other in others:
        with pytest.raises(UsageError, match=f"{other} of gemm-split has no marks") as caught:
            marked_launches(entry, case, "sm_90", other)
        assert f"--launch {entries[0]}" in caught.value.hint


def test_a_launch_that_a_kernel_does_not_make_is_refused_with_those_it_makes(tmp_path):
    entry = _marked_split(tmp_path, "add_sums")
    with pytest.raises(UsageError, match="gemm-split has no launch sum") as caught:
        marked_launches(entry, Case(entry.default, entry.op.default), "sm_90", "sum")
    assert "partial_sums, add_sums" in caught.value.hint
