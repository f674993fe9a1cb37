"""What `__device__` variables hold from one launch to the next, in the interpreter of PTX and on a GPU."""

import pytest
from row_sums import Launch, Made, made, verdicts

pytestmark = pytest.mark.slow

SUM = """
__device__ float sum_of_row(const float* x, int row) {
  float sum = x[row * AXIS_N + threadIdx.x];
  for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
  return sum;
}
"""
KERNEL = '{variables}\nextern "C" __global__ void k(const float* x, float* y) {{\n  const int row = {row};\n{body}\n}}'


def kernel(variables, *lines, row="blockIdx.x"):
    body = "\n".join(("  const float sum = sum_of_row(x, row);", *lines))
    return SUM + KERNEL.format(variables=variables, row=row, body=body)


TICKET = (
    "  if (threadIdx.x != 0) return;",
    "  parts[blockIdx.x] = sum / 4;",
    "  __threadfence();",
    "  if (atomicAdd(&tickets[row], 1) {last}) {{",
    "    __threadfence();",
    "    volatile float* mine = &parts[4 * row];",
    "    y[row] = mine[0] + mine[1] + mine[2] + mine[3];",
    "    {then}",
    "  }}",
)


def ticket(last, then="", variables="__device__ int tickets[64]; __device__ float parts[256];"):
    """Four blocks a row, the last of which adds up what all have left."""
    lines = [line.format(last=last, then=then) for line in TICKET]
    return kernel(variables, *lines, row="blockIdx.x / 4")


FOUR = (Launch(grid="4 * w.M"),)
TWO = (Launch(entry="k", arguments=("x", "y")), Launch(entry="finish", arguments=("y",)))
FINISH = '\nextern "C" __global__ void finish(float* y) { if (threadIdx.x == 0) y[blockIdx.x] = held[blockIdx.x]; }'
AGAIN = "launched again"
KERNELS = {
    "a-counter-that-is-not-reset": Made(ticket("== 3"), "unwritten-output", AGAIN, FOUR),
    "a-counter-that-is-reset": Made(ticket("== 3", "tickets[row] = 0;"), launches=FOUR),
    "a-counter-that-goes-round": Made(ticket("% 4 == 3"), launches=FOUR),
    "a-sum-that-is-kept": Made(
        kernel("__device__ float held[64];", "  if (threadIdx.x == 0) y[row] = held[row] += sum;"),
        "wrong-numbers", AGAIN,
    ),
    "a-flag-that-stays": Made(
        kernel(
            "__device__ bool is_done[64];",
            "  if (threadIdx.x != 0 || is_done[row]) return;",
            "  y[row] = sum;",
            "  is_done[row] = true;",
        ),
        "unwritten-output", AGAIN,
    ),
    "a-place-that-moves-on": Made(
        kernel(
            "__device__ int next[64]; __device__ float held[64];",
            "  if (threadIdx.x == 0) y[row] = held[row + 61 * next[row]++] + sum;",
        ),
        "unsafe", AGAIN,
    ),
    "a-table": Made(
        kernel("__constant__ float one[2] = {0.f, 1.f};", "  if (threadIdx.x == 0) y[row] = one[1] * sum;"),
    ),
    "launches-that-hand-on": Made(
        kernel("__device__ float held[64];", "  if (threadIdx.x == 0) held[row] = sum;") + FINISH, launches=TWO
    ),
    "launches-that-add-to-what-was-handed-on": Made(
        kernel("__device__ float held[64];", "  if (threadIdx.x == 0) held[row] += sum;") + FINISH,
        "wrong-numbers", AGAIN, TWO,
    ),
    "a-pointer-that-is-kept": Made(
        kernel("__device__ float held[64]; __device__ float* where;",
               "  if (threadIdx.x == 0) { held[row] = sum; where = held; }")
        + FINISH.replace("held[blockIdx.x]", "where[blockIdx.x]"),
        launches=TWO,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return verdicts(made(tmp_path_factory.mktemp("modules"), KERNELS))


@pytest.mark.parametrize("name", KERNELS)
def test_variables_live_as_long_as_their_module(found, name):
    status, reason = found[name]
    assert (status, KERNELS[name].words in reason) == (KERNELS[name].status, True), reason


@pytest.mark.gpu
def test_a_gpu_says_the_same(tmp_path):
    right = {name: kernel for name, kernel in KERNELS.items() if kernel.status != "unsafe"}
    found = verdicts(made(tmp_path, right), gpu="")
    assert {name: status for name, (status, _) in found.items()} == {name: each.status for name, each in right.items()}
