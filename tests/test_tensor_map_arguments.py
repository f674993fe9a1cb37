"""Kernels that are given tensor maps: boxes as hardware lays them, interpreted and on a GPU; and what is no map."""

import pytest
import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import DeclarationError
from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.bind import load
from gdnbench.launch.interpret import InterpretedCuda

OP = """from gdnbench import Axis, ExactGate, Op, Shape, TensorSpec, WorkloadSpec
op = Op(name="boxes", title="boxes", workloads=WorkloadSpec(axes=(Axis("T", default=11, doc="rows"),)),
    inputs=(TensorSpec("k", ("T", 3, 128), "bf16"), TensorSpec("begin", (8, 3), "int32"),
            TensorSpec("odd", (4, 5), "fp32")),
    outputs=(TensorSpec("y", (8, 1024), "bf16"),), gates=(ExactGate("y"),), suites={"verify": (Shape(T=11),)})
"""
BEGIN = [[0, 0, 0], [7, 2, 64], [-3, 1, 32], [2, 0, 96], [5, 1, -8], [11, 0, 0], [1, 3, 0], [9, 1, 128]]
NUMERICS = f"""import torch


def make_inputs(workload, seed, device, scenario):
    k = torch.randn(workload.T, 3, 128, generator=torch.Generator().manual_seed(seed)).bfloat16()
    begin = torch.tensor({BEGIN}, dtype=torch.int32)
    return {{"k": k.to(device), "begin": begin.to(device), "odd": torch.zeros(4, 5, device=device)}}, {{}}


def oracle(tensors, scalars):
    return {{"y": torch.zeros(8, 1024)}}  # what is right depends on the map: no test asks
"""
SOURCE = """#include <gdn/barriers.cuh>
#include <gdn/tensor_map.cuh>
// Each block leaves a box as it lies in shared memory, and zeros behind it.
extern "C" __global__ void boxes(const __grid_constant__ gdn::TensorMap map, const unsigned short* k, int T,
                                 const int* begin, unsigned short* y) {
  __shared__ __align__(1024) unsigned short box[1024];
  __shared__ gdn::Barrier there;
  if (threadIdx.x == 0) {
    gdn::prefetch(map);
    gdn::initialise(there, 1);
    gdn::fence_barriers();
    gdn::arrive_expecting(there, 2 * SIZE);
    const int* const at = begin + 3 * blockIdx.x;
    gdn::load_box(box, map, at[0], at[1], at[2], there);
  }
  __syncthreads();
  gdn::wait(there, 0);
  for (int i = threadIdx.x; i < 1024; i += 32) y[1024 * blockIdx.x + i] = i < SIZE ? box[i] : T < 0 ? k[i] : 0;
}
"""
MAP = "TensorMap('k', box=lambda w, p: (p.SIZE // {0}, 1, {0}), swizzle={1})"


@pytest.fixture
def case(tmp_path):
    def made(declared, device="cpu"):
        op = tmp_path / "boxes"
        (op / "mine").mkdir(parents=True)
        text = f"""from gdnbench import *
launch = CudaLaunch(entry="boxes", grid=lambda w, p: (8,), block=lambda w, p: 32,
    arguments=({declared}, "k", "T", "begin", "y"))
size = Param(default=512, choices=(512, 1024), doc="elements of a box")
kernel = CudaKernel(name="boxes-mine", since="sm_90", params={{"SIZE": size}}, launches=(launch,))
"""
        files = {"op.py": OP, "numerics.py": NUMERICS, "mine/kernel.cu": SOURCE, "mine/variant.py": text}
        for path, content in files.items():
            (op / path).write_text(content)
        catalog = load_catalog([tmp_path])
        assert not catalog.broken, catalog.broken[0].reason
        entry = catalog.entries["boxes-mine"]
        workload, numerics = entry.op.workload({"T": 11}), load_numerics(entry.op, op)
        made = Workspace.make(entry.op, numerics, workload, seed=1, device=device, scenario="typical")
        return entry, entry.default, workload, made

    return made


def as_it_lies(workspace, width, swizzle, *seen):
    k, begin = (workspace.inputs[name].cpu() for name in ("k", "begin"))
    around = torch.zeros(64, 64, 256, dtype=k.dtype)
    k = k.view(seen or k.shape)
    around[16 : 16 + k.shape[0], 16 : 16 + k.shape[1], 16 : 16 + k.shape[2]] = k
    rows, y = 512 // width, torch.zeros(8, 1024, dtype=k.dtype)
    for block, (t, h, c) in enumerate(begin.tolist()):
        box = around[16 + t : 16 + t + rows, 16 + h, 16 + c : 16 + c + width].reshape(-1, 8)
        for piece, values in enumerate(box):
            place = piece ^ (piece // 8 % (swizzle // 16) if swizzle else 0)
            y[block, 8 * place : 8 * place + 8] = values
    return y


LAYOUTS = [(64, 128), (32, 64), (16, 32), (128, 0), (8, 0)]


@pytest.mark.parametrize(("width", "swizzle"), LAYOUTS)
def test_boxes_lie_as_hardware_lays_them_and_zeros_around(case, width, swizzle):
    entry, variant, workload, workspace = case(MAP.format(width, swizzle))
    run = InterpretedCuda(entry, variant, workload, "sm_90").run(workspace)
    assert run.findings == ()
    assert torch.equal(workspace.outputs["y"], as_it_lies(workspace, width, swizzle))


def test_a_map_sees_a_tensor_by_other_axes(case):
    entry, variant, workload, workspace = case("TensorMap('k', box=(8, 1, 64), sizes=lambda w, p: (w.T, 6, 64))")
    assert InterpretedCuda(entry, variant, workload, "sm_90").run(workspace).findings == ()
    assert torch.equal(workspace.outputs["y"], as_it_lies(workspace, 64, 128, 11, 6, 64))


@pytest.mark.parametrize("column", [100, -4, 7])
def test_a_box_begins_at_a_multiple_of_16_bytes_of_a_row(case, column):
    entry, variant, workload, workspace = case(MAP.format(64, 128))
    workspace.inputs["begin"][3:5, 2] = column
    (found,) = InterpretedCuda(entry, variant, workload, "sm_90").run(workspace).findings
    text = f"thread 0 of block 3 copies a box that begins at byte {2 * column} of a row, which is not a multiple of 16"
    assert (found.fault, found.text, found.count, "kernel.cu:14" in str(found.at)) == ("misaligned", text, 2, True)


@pytest.mark.gpu
@pytest.mark.parametrize(("width", "swizzle"), LAYOUTS)
def test_a_gpu_lays_them_so(case, width, swizzle):
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("bulk tensor copies came with Hopper")
    entry, variant, workload, workspace = case(MAP.format(width, swizzle), "cuda")
    load(entry, variant, workload)(workspace)()
    assert torch.equal(workspace.outputs["y"].cpu(), as_it_lies(workspace, width, swizzle))


WRONG = {
    "TensorMap('q', box=(8, 1, 64))": "boxes takes a map of q, and there is no such",
    "TensorMap('T', box=(8, 1, 64))": "boxes takes a map of T, and there is no such",
    "'k'": "takes parameters of 128, 8, 4, 8, 8 bytes, and its launch gives 8, 8, 4, 8, 8",
    "TensorMap('k', box=(8, 64))": "the box (8, 64) has 2 axes, the tensor 3",
    "TensorMap('k', box=())": "has 0 axes",
    "TensorMap('k', box=(8, 64), sizes=lambda w, p: (w.T, 128))": "are not the elements of a tensor of (11, 3, 128)",
    "TensorMap('k', box=(257, 1, 64))": "an axis that is not 1 to 256 long",
    "TensorMap('k', box=(0, 1, 64))": "an axis that is not 1 to 256 long",
    "TensorMap('k', box=(8, 1, 60))": "rows of 120 bytes, the tensor of 256, no multiples of 16",
    "TensorMap('odd', box=(4, 4))": "rows of 16 bytes, the tensor of 20, no multiples of 16",
    "TensorMap('k', box=(8, 1, 128))": "rows of 256 bytes, longer than the swizzle of 128",
    "TensorMap('k', box=(8, 1, 64), promotion=lambda w, p: 100)": "a promotion of 100 bytes, there are 0, 64, 128, 256",
    "TensorMap('k', box=lambda w, p: p.SIZE)": "`box` returns 512, not a tuple of whole numbers",
}


@pytest.mark.parametrize("declared", WRONG)
def test_what_is_no_map_is_refused_in_words(case, declared):
    entry, variant, workload, workspace = case(declared)
    with pytest.raises(DeclarationError) as caught:
        InterpretedCuda(entry, variant, workload, "sm_90").run(workspace)
    assert WRONG[declared] in str(caught.value)


def test_another_swizzle_is_broken_where_it_is_declared(case):
    with pytest.raises(AssertionError, match="there is no swizzle 16, there are 0, 32, 64, 128"):
        case("TensorMap('k', box=(8, 1, 8), swizzle=16)")
