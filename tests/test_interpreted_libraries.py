"""Kernels with cooperative groups, libcu++ and CUB: they build with what gdnbench installs, and are interpreted."""

import cuda.pathfinder
import pytest
from row_sums import Launch, Made, made, verdicts

from gdnbench.catalog.catalog import load_catalog
from gdnbench.codegen.nvrtc import compile_cuda, compile_ptx
from gdnbench.errors import BuildError

pytestmark = pytest.mark.slow

GROUPS = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;\n"
BARRIER = "#include <cuda/barrier>\n"
KERNEL = '{head}extern "C" __global__ void k(const float* x, float* y) {{\n  const int i = threadIdx.x;\n{body}\n}}\n'
COPIED = """
  __shared__ alignas(16) float row[AXIS_N];
  #pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> there;
  if (i == 0) init(&there, blockDim.x);
  __syncthreads();
  {copy}
  float sum = 0.f;
  for (int n = 0; n < AXIS_N; ++n) sum += row[n];
  if (i == 0) y[blockIdx.x] = sum;"""


def kernel(head, body, block="32"):
    return Made(KERNEL.format(head=head, body=body), launches=(Launch(block=block),))


KERNELS = {
    "a-tile-reduces": kernel(GROUPS, """
  const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  const float sum = cg::reduce(tile, x[blockIdx.x * AXIS_N + i], cg::plus<float>());
  if (tile.thread_rank() == 0) y[blockIdx.x] = sum;"""),
    "the-threads-that-are-here": kernel(GROUPS, """
  float sum = x[blockIdx.x * AXIS_N + i];
  for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
  if (i % 3 == 1) {
    const auto here = cg::coalesced_threads();
    float same = 0.f;
    for (unsigned n = 0; n < here.size(); ++n) same += here.shfl(sum, n) / here.size();
    if (here.thread_rank() == here.size() - 1) y[blockIdx.x] = same;
  }"""),
    "a-copy-with-a-barrier": kernel(BARRIER, COPIED.format(copy="""
  cuda::memcpy_async(&row[i], x + blockIdx.x * AXIS_N + i, sizeof(float), there);
  there.arrive_and_wait();""")),
    "a-copy-of-the-whole-block": kernel(GROUPS + BARRIER, COPIED.format(copy="""
  const cuda::aligned_size_t<16> size(sizeof(float) * AXIS_N);
  cuda::memcpy_async(cg::this_thread_block(), row, x + blockIdx.x * AXIS_N, size, there);
  there.arrive_and_wait();""")),
    "a-pipeline": kernel(GROUPS + "#include <cuda/pipeline>\n", """
  const auto block = cg::this_thread_block();
  __shared__ alignas(16) float half[2][AXIS_N / 2];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  const cuda::aligned_size_t<16> size(sizeof(float) * AXIS_N / 2);
  for (int h = 0; h < 2; ++h) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, half[h], x + blockIdx.x * AXIS_N + h * AXIS_N / 2, size, pipe);
    pipe.producer_commit();
  }
  float sum = 0.f;
  for (int h = 0; h < 2; ++h) {
    pipe.consumer_wait();
    for (int n = 0; n < AXIS_N / 2; ++n) sum += half[h][n];
    pipe.consumer_release();
  }
  if (i == 0) y[blockIdx.x] = sum;"""),
    "a-flag": kernel("#include <cuda/atomic>\n", """
  __shared__ float row[AXIS_N];
  __shared__ int flag;
  if (i == 0) flag = 0;
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block> ready(flag);
  if (i < 32) {
    row[i] = x[blockIdx.x * AXIS_N + i];
    __syncwarp();
    if (i == 0) ready.store(1, cuda::memory_order_release);
  } else {
    ready.wait(0, cuda::memory_order_acquire);
    float sum = 0.f;
    for (int n = 0; n < AXIS_N; ++n) sum += row[n];
    if (i == 32) y[blockIdx.x] = sum;
  }""", block="64"),
    "a-block-of-cub": kernel("#include <cub/block/block_reduce.cuh>\n", """
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage there;
  const float sum = Reduce(there).Sum(i < AXIS_N ? x[blockIdx.x * AXIS_N + i] : 0.f);
  if (i == 0) y[blockIdx.x] = sum;""", block="64"),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return verdicts(made(tmp_path_factory.mktemp("libraries"), KERNELS))


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_with_cudas_libraries_are_checked_without_a_gpu(found, name):
    assert found[name] == ("ok", "")


@pytest.mark.parametrize("compile_it", [compile_cuda, compile_ptx])
@pytest.mark.parametrize("header", ["cooperative_groups.h", "cuda/barrier", "cuda/std/array", "cub/cub.cuh"])
def test_a_header_that_is_not_installed_is_told_with_its_package(tmp_path, monkeypatch, compile_it, header):
    find = cuda.pathfinder.find_nvidia_header_directory
    monkeypatch.setattr(
        "cuda.pathfinder.find_nvidia_header_directory", lambda name: find(name) if name != "cccl" else None
    )
    bench = made(tmp_path, {"bare": kernel(f"#include <{header}>\n", "  y[i] = x[i];")})
    entry = load_catalog(bench.roots).entries["rowsum-bare"]
    with pytest.raises(BuildError, match="pip install nvidia-cuda-cccl"):
        compile_it(entry, entry.default.params, entry.op.default, "sm_90")


def test_a_header_of_nobody_is_told_as_the_compiler_tells_it(tmp_path):
    bench = made(tmp_path, {"lost": kernel('#include "lost.cuh"\n', "  y[i] = x[i];")})
    entry = load_catalog(bench.roots).entries["rowsum-lost"]
    with pytest.raises(BuildError, match=r'cannot open source file "lost\.cuh"') as caught:
        compile_ptx(entry, entry.default.params, entry.op.default, "sm_90")
    assert "pip install" not in caught.value.message
