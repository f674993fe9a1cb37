"""Triton's arithmetic without a GPU, in one process of its own: the interpreter is chosen when triton is imported."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from bundled import CATALOG
from deep import cases_to_run
from forked_workers import interpreted
from nvfp4_data import scaled
from write_kernels import write_changed

from gdnbench import nvfp4
from gdnbench.launch.triton_rounding import from_nvfp4
from gdnbench.ptx.numbers import to_bfloat16

TRITON = CATALOG.entries["decode-triton"]
BLOCKS = TRITON.kernel.params["BV"].choices


@pytest.fixture(scope="module")
def verdicts(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("kernels")
    for name, right, wrong in (
        ("spoils", "tl.store(new_state + tile, s)", "tl.store(new_state + tile, s); tl.store(state + tile, s)"),
        ("unscaled", "(scale * ", "("),
        ("reads-past", "tl.load(v + head_of_batch * V + rows)", "tl.load(v + head_of_batch * V + rows + 4)"),
        ("writes-past", "tl.store(new_state + tile, s)", "tl.store(new_state + V + tile, s)"),
    ):
        assert TRITON.source.read_text().count(right) == 1
        write_changed(TRITON, f"decode-{name}", root, (right, wrong))
    cases = cases_to_run(request, "test_every_block_size_passes_all_gates_on_all_inputs")
    blocks = {64, *(case["block"] for case in cases)}
    return {case: rest for case, *rest in interpreted("interpreted", str(root), *map(str, sorted(blocks)))}


def verdict_of(verdicts, label, workload="B1_HQ1_HV1_K128_V128"):
    return verdicts[f"{label}/{workload}"]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("kernel", ["decode-triton", "decode-triton-one"])
def test_every_block_size_passes_all_gates_on_all_inputs(verdicts, kernel, block):
    status, reason, scenarios, _ = verdict_of(verdicts, f"{kernel}:BV={block}")
    assert (status, reason) == ("ok", "")
    assert scenarios == ["large-state", "saturated-gates", "typical", "zero-b"]


@pytest.mark.parametrize("kernel", ["decode-triton", "decode-triton-one"])
def test_value_heads_read_the_query_head_they_share(verdicts, kernel):
    assert verdict_of(verdicts, f"{kernel}:BV=64", "B2_HQ2_HV4_K128_V128")[0] == "ok"


@pytest.mark.parametrize("label", ["decode-triton-tma:BV=32:TILES=2", "decode-triton-ws:BV=32:TILES=4"])
def test_tiles_moved_through_descriptors_pass_all_gates_on_all_inputs(verdicts, label):
    status, reason, scenarios, _ = verdict_of(verdicts, label, "B2_HQ2_HV4_K128_V128")
    assert (status, reason) == ("ok", "")
    assert len(scenarios) == 4


def test_the_interpreter_finds_wrong_numbers(verdicts):
    status, reason, *_ = verdict_of(verdicts, "decode-unscaled:BV=64")
    assert status == "wrong-numbers"
    assert "output" in reason


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("reads-past", ":40: program (1, 0, 0) reads 2 bytes at byte 256 of `v`, which has 256 (and 3 more)"),
        ("writes-past", ":53: program (1, 0, 0) writes 4 bytes at byte 65536 of `new_state`, which has 65536"),
    ],
)
def test_an_access_beside_a_tensor_is_found_and_not_made(verdicts, name, told):
    status, reason, *_ = verdict_of(verdicts, f"decode-{name}:BV=64")
    assert status == "unsafe"
    assert told in reason


def test_a_kernel_that_changes_its_inputs_is_found_and_does_not_spoil_the_next(verdicts):
    status, reason, *_ = verdict_of(verdicts, "decode-spoils:BV=64")
    assert (status, reason.partition(":")[0]) == ("changed-input", "state unchanged")
    labels = [case.partition("/")[0] for case in verdicts if "/" in case]
    assert labels.index("decode-spoils:BV=64") < labels.index("decode-triton:BV=64")
    assert verdict_of(verdicts, "decode-triton:BV=64")[0] == "ok"


def test_fp32_becomes_the_to_bfloat16_as_on_a_gpu():
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    ties = np.arange(0x3F80_8000, 0x4080_8000, 0x1_0000, dtype=np.uint32)
    values = np.concatenate([bits, ties, [0, 0x8000_0000, 0x7F80_0000, 0xFF80_0000, 1, 0x7F7F_FFFF]]).astype(np.uint32)
    values = values.view(np.float32)
    found = torch.from_numpy(to_bfloat16(values).view(np.int16)).view(torch.bfloat16)
    torch.testing.assert_close(found, torch.from_numpy(values).bfloat16(), rtol=0, atol=0, equal_nan=True)
    assert to_bfloat16(np.float32(1.5)).shape == ()


def test_the_interpreter_rounds_to_nearest(verdicts):
    """Cut off instead of rounded, an output lies up to an ulp away, thousands of times what fp32 may make."""
    assert verdict_of(verdicts, "decode-triton:BV=64")[3]["output fp32 roundoff"] < 1


def test_arithmetic_in_bf16_is_of_numbers_and_not_of_their_bits(verdicts):
    found, expected = verdicts["bf16"]
    assert found[:6] == expected[:6]
    np.testing.assert_allclose(found[6], expected[6], rtol=2**-7)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_fp32_becomes_the_nearest_fp8_and_at_most_the_largest(verdicts, name):
    found, expected = verdicts[name]
    assert found == expected


def test_products_with_scales_take_numbers_in_nvfp4():
    (bits, scales), _ = (
        nvfp4.stored(coded, 4, "cpu")
        for coded in nvfp4.draw_pair(4, 4, 64, "all-codes", torch.Generator().manual_seed(1))
    )
    found = from_nvfp4(bits.numpy(), scales.view(torch.uint8).numpy())
    assert torch.equal(torch.from_numpy(found).double(), scaled(bits, scales))
    with pytest.raises(ValueError, match="one for each 16"):
        from_nvfp4(bits.numpy(), scales.view(torch.uint8).numpy()[:, ::2])


ASM = """
import numpy as np, torch, triton, triton.language as tl
from gdnbench.launch.triton_rounding import round_to_nearest
round_to_nearest()

@triton.jit
def kernel(X, Y, Z, W, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(X + at)
    y = tl.inline_asm_elementwise("fma.rn.f32 $0, $1, $2, 0f3F800000;", "=f,f,f", [x, 2.0], tl.float32, True, 1)
    swapped = "{ .reg .b16 a, b; mov.b32 {a, b}, $1; mov.b32 $0, {b, a}; }"
    z = tl.inline_asm_elementwise(swapped, "=r,r", [x.to(tl.bfloat16)], tl.bfloat16, True, 2)
    w, v = tl.inline_asm_elementwise(
        "cvt.rzi.s32.f32 $0, $2; neg.f32 $1, $2;", "=r,=f,f", [y], (tl.int32, tl.float32), True, 1
    )
    tl.store(Y + at, v)
    tl.store(Z + at, z)
    tl.store(W + at, w)

x, y = torch.randn(256) * 9, torch.zeros(256)
z, w = torch.zeros(256, dtype=torch.bfloat16), torch.zeros(256, dtype=torch.int32)
kernel[(1,)](x, y, z, w, 256)
right = x * 2 + 1
assert torch.equal(y, -right), (y + right).abs().max()
assert torch.equal(z.view(128, 2).flip(1).reshape(-1), x.bfloat16())
assert torch.equal(w, right.int())
"""


def test_inline_ptx_of_several_results_and_of_packs_gives_what_it_computes(tmp_path):
    (tmp_path / "asm.py").write_text(ASM)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, tmp_path / "asm.py"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
