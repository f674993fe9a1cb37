"""What `cuobjdump` prints of a cubin, and ptxas in its log, read back."""

from pathlib import Path

import pytest

from gdnbench.codegen.build import serialized_because
from gdnbench.codegen.cubin import Resources, disassemble, parse_resources, run_cuobjdump
from gdnbench.errors import MachineError, UsageError

DATA = Path(__file__).parent / "data" / "binary"
ONE = (DATA / "decode_v1_sm_90.res-usage").read_text()
SEVERAL = (DATA / "several_sm_100.res-usage").read_text()


def test_one_kernel():
    found = parse_resources(ONE, "gdn_decode_v1", "sm_90")
    assert found == Resources(registers=67, shared_bytes=0, stack_bytes=0, local_bytes=0)
    assert found.spill_bytes == 0


def test_the_kernel_named_is_read_and_not_another():
    assert parse_resources(SEVERAL, "k", "sm_100").registers == 32
    assert parse_resources(SEVERAL, "k2", "sm_100").registers == 8


def test_spills_are_stack_and_local_memory():
    assert parse_resources(SEVERAL, "k", "sm_100").spill_bytes == 1104 + 8


def test_what_the_system_reserves_of_shared_memory_is_not_the_kernels():
    assert parse_resources(SEVERAL, "k", "sm_100").shared_bytes == 256
    assert parse_resources(SEVERAL, "k", "sm_86").shared_bytes == 1280


@pytest.mark.parametrize(
    "text", ["", "Resource usage:\n Common:\n  GLOBAL:0\n", ONE.replace("STACK:0", "STACK:UNKNOWN")]
)
def test_what_is_not_told_is_an_error_and_no_zero(text):
    with pytest.raises(MachineError, match="does not tell"):
        parse_resources(text, "gdn_decode_v1", "sm_90")


@pytest.mark.parametrize("arch", ["90", "sm90", "sm_9", "gfx942", "sm_90x", ""])
def test_what_is_no_architecture(arch):
    with pytest.raises(UsageError, match="not an architecture"):
        parse_resources(ONE, "gdn_decode_v1", arch)


@pytest.fixture
def tool(monkeypatch):
    """Stands in for cuobjdump: what it would print, and how often it is asked."""
    asked = []
    monkeypatch.setattr(
        "gdnbench.codegen.cubin.run_cuobjdump", lambda *words: asked.append(words) or f"SASS of {words}"
    )
    return asked


def test_the_tool_is_asked_once_for_each_kernel_of_a_cubin(tool, tmp_path):
    one, other = tmp_path / "one.cubin", tmp_path / "other.cubin"
    texts = [disassemble(cubin, symbol) for cubin in (one, other) for symbol in ("a", "b")]
    assert [disassemble(cubin, symbol) for cubin in (one, other) for symbol in ("a", "b")] == texts
    assert len(set(texts)) == len(tool) == 4
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_folder_that_cannot_be_written_costs_only_time(tool, tmp_path):
    gone = tmp_path / "nowhere" / "one.cubin"
    assert disassemble(gone, "a") == disassemble(gone, "a")
    assert len(tool) == 2


def test_what_is_kept_and_is_no_text_is_made_anew(tool, tmp_path):
    cubin = tmp_path / "one.cubin"
    text = disassemble(cubin, "a")
    [kept] = tmp_path.iterdir()
    kept.write_bytes(b"\xff\xfe")
    assert disassemble(cubin, "a") == text
    assert len(tool) == 2


def _attributes(symbol, **sizes):
    lines = [f"\n.nv.info.{symbol}"]
    for name, (x, y, z) in sizes.items():
        lines += [
            "\t<0x1>",
            f"\tAttribute:\tEIATTR_{name}",
            "\tFormat:\tEIFMT_SVAL",
            f"\tValue:\t{x:#x} {y:#x} {z:#x} ",
        ]
    return "\n".join([*lines, "\n\n.text.k\n"])


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ({}, (0, 0, (1, 1, 1))),
        ({"REQNTID": (128, 2, 1)}, (256, 0, (1, 1, 1))),
        ({"MAX_THREADS": (96, 1, 1)}, (0, 96, (1, 1, 1))),
        ({"CTA_PER_CLUSTER": (2, 4, 1)}, (0, 0, (2, 4, 1))),
        ({"MAX_THREADS": (512, 1, 1), "CTA_PER_CLUSTER": (8, 1, 1)}, (0, 512, (8, 1, 1))),
    ],
)
def test_the_blocks_and_clusters_that_a_cubin_asks_for(sizes, found):
    # Of another kernel in the same cubin, whose name begins alike, nothing counts.
    text = SEVERAL + _attributes("k2", REQNTID=(32, 1, 1), CTA_PER_CLUSTER=(16, 1, 1)) + _attributes("k", **sizes)
    read = parse_resources(text, "k", "sm_100")
    assert (read.required_threads, read.most_threads, read.cluster) == found


def test_a_cubin_that_cannot_be_read_may_be_of_a_newer_compiler(tmp_path):
    (tmp_path / "newer.cubin").write_bytes(b"\x7fELF of tomorrow")
    with pytest.raises(MachineError, match=r"cuobjdump cannot read .*newer\.cubin") as raised:
        run_cuobjdump(tmp_path / "newer.cubin", "-res-usage", "-elf")
    assert "pip install 'nvidia-cuda-nvrtc<13.2'" in raised.value.hint


HEAD = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
OTHERS = (
    "ptxas info    : (C7519) warpgroup.arrive is injected in around line 74 by compiler to allow use of registers in "
    "GMMA in function 'k'\n"
    "ptxas info    : (C7517) warpgroup.wait is injected in around line 114 by compiler to allow use of registers "
    "defined by GMMA in function 'k'\n"
)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "insufficient register resources for the wgmma pipeline in the function 'k'",
            "insufficient register resources for the wgmma pipeline",
        ),
        ("insufficient register resources for the function 'k'", "insufficient register resources"),
        (
            "wgmma pipeline crossing function boundary at a function call in the function 'k'",
            "wgmma pipeline crossing function boundary at a function call",
        ),
        (
            "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline "
            "stage in the function 'k'",
            "non wgmma instructions reading accumulator registers of a wgmma between start and end of the pipeline "
            "stage",
        ),
        ("ill formed pipeline stage in the function 'k'", "ill formed pipeline stage"),
    ],
)
def test_a_reason_is_in_ptxass_words(said, why):
    assert serialized_because(f"{OTHERS}{HEAD}{said}\n\0\0", "k") == why


def test_each_reason_is_told_once():
    lines = [f"{HEAD}{why} in the function 'k'" for why in ("calls", "ill formed pipeline stage", "calls")]
    assert serialized_because("\n".join(lines), "k") == "calls, ill formed pipeline stage"


@pytest.mark.parametrize(
    "log", ["", "\0\0", OTHERS, f"{HEAD}calls in the function 'k2'", f"{HEAD}calls in the function"]
)
def test_other_lines_and_other_functions_tell_nothing(log):
    assert serialized_because(log, "k") == ""
