"""What the rules for CUDA find, and what they must not."""

import pytest
from lint_data import Bench, codes

from gdnbench.errors import BuildError

HEAD = "#include <cuda_bf16.h>\n"
KERNEL = """extern "C" __global__ void rows(const __nv_bfloat16* __restrict__ x, const float* __restrict__ w,
                                float* __restrict__ y, float* __restrict__ total, int M) {{
{body}
}}
"""


@pytest.fixture
def lint(tmp_path):
    bench = Bench(tmp_path)

    def call(body, select="", **more):
        return codes(bench.cuda(HEAD + KERNEL.format(body=body), select=select, **more))

    return call


# C1


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        ("for (int i = 0; i < AXIS_N; ++i) sum += __bfloat162float(x[8 + i]);", True),
        ("for (int i = 0; i < AXIS_N; i++) sum += __bfloat162float(x[i + M * 4]);", True),
        ("for (int i = 0; i < 3; ++i) sum += __bfloat162float(x[i]);", False),
        ("for (int i = 0; i < AXIS_N; ++i) sum += __bfloat162float(x[i * 32]);", False),
        ("for (int i = 0; i < AXIS_N; ++i) sum += __bfloat162float(x[threadIdx.x]);", False),
        ("for (int i = 0; i < AXIS_N; ++i) sum += w[i];", False),
        ("for (int i = threadIdx.x; i < AXIS_N; i += 128) sum += __bfloat162float(x[i]);", False),
        ("for (int i = 0; i < AXIS_N; ++i) sum += __bfloat162float(x[(i % 4) * 2 + i / 4]);", False),
    ],
)
def test_only_neighbours_of_one_thread_are_narrow(lint, loop, found):
    assert lint(f"  float sum = 0.f;\n  {loop}\n  total[M - 1] = sum;") == ([("C1", 5)] if found else [])


# C2


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("  if (threadIdx.x == 0) __syncthreads();", [4]),
        (
            "  const int lane = threadIdx.x % 32;\n  const bool first = lane == 0;\n  if (first) { __syncthreads(); }",
            [6],
        ),
        ("  if (blockIdx.x == 0) __syncthreads();", []),
        ("  if (M > 3) __syncthreads();", []),
        ("  if (threadIdx.x > 4) return;\n  __syncthreads();", [5]),
        ("  if (blockIdx.x > 4) return;\n  __syncthreads();", []),
        ("  if (threadIdx.x > 4) __syncwarp();", []),
        ("  __syncthreads();\n  if (threadIdx.x > 4) return;\n  y[0] = 1.f;", []),
        ("  for (int i = threadIdx.x; i < M; i += 128) {\n    __syncthreads();\n  }", [5]),
        ("  for (int i = 0; i < M; ++i) __syncthreads();", []),
        ("  if (w[threadIdx.x] > 0.f) y[1] = 1.f;\n  __syncthreads();", []),
        ("  if (__syncthreads_or(threadIdx.x > 4)) y[1] = 1.f;", []),
    ],
)
def test_a_barrier_that_some_threads_miss(lint, body, lines):
    assert lint(body, select="C2") == [("C2", line) for line in lines]


def test_a_call_of_a_function_that_meets_at_a_barrier_counts_as_one(tmp_path):
    source = (
        HEAD + "__device__ void meet() { __syncthreads(); }\n" + KERNEL.format(body="  if (threadIdx.x < 3) meet();")
    )
    assert codes(Bench(tmp_path).cuda(source, select="C2")) == [("C2", 5)]


def test_a_return_in_another_function_is_not_one_of_the_kernel(tmp_path):
    other = "__device__ void first(float* y) {\n  if (threadIdx.x != 0) return;\n  y[0] = 1.f;\n}\n"
    source = HEAD + other + KERNEL.format(body="  first(y);\n  __syncthreads();")
    assert codes(Bench(tmp_path).cuda(source, select="C2")) == []


# C3


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("  y[0] = parts[0] + 1.f;", True),
        ("  const float old = parts[threadIdx.x];\n  y[0] = old;", True),
        ("  parts[0] = 1.f;\n  y[0] = parts[0] + 1.f;", False),
        ("  fill(parts);\n  y[0] = parts[0] + 1.f;", False),
        ("  float* p = parts;\n  p[0] = 1.f;\n  y[0] = parts[0] + 1.f;", False),
        ("  float (&r)[8] = parts;\n  r[0] = 1.f;\n  y[0] = parts[0] + 1.f;", False),
        ("  auto& first = parts[0];\n  first = 1.f;\n  y[0] = parts[0] + 1.f;", False),
        ('  asm volatile("" :: "l"(&parts[0]) : "memory");\n  y[0] = parts[0] + 1.f;', False),
        ("  for (int i = 0; i < 9; ++i) {\n    if (i > 0) y[i] = parts[0] + 1.f;\n    parts[0] = 1.f;\n  }", False),
        ("  for (int i = 0; i < 9; ++i) {\n    y[i] = parts[0] + 1.f;\n    parts[0] = 1.f;\n  }", True),
    ],
)
def test_shared_memory_that_nobody_wrote(lint, body, found):
    assert bool(lint(f"  __shared__ float parts[8];\n{body}", select="C3")) == found


def test_dynamic_shared_memory_may_be_written_elsewhere(lint):
    assert lint("  extern __shared__ float parts[];\n  y[0] = parts[0] + 1.f;", select="C3") == []


# C4


@pytest.mark.parametrize(
    ("parameter", "use", "found"),
    [
        ("float* x", "y[0] = x[1];", True),
        ("const float* x", "y[0] = x[1];", True),
        ("float* __restrict__ x", "y[0] = x[1];", True),
        ("const float* __restrict__ x", "y[0] = x[1];", False),
        ("float* x", "x[0] = 1.f;", False),
        ("float* x", "x[0] += 1.f;", False),
        ("float* x", "++x[0];", False),
        ("float* x", "atomicAdd(&x[0], 1.f);", False),
        ("float* x", "change(x);", False),
        ("float* x", "change(x[0]);", False),
        ("float* x", "float* p = x; p[0] = 1.f;", False),
        ("float* x", "", False),
        ("float x", "y[0] = x;", False),
    ],
)
def test_a_pointer_that_is_only_read(tmp_path, parameter, use, found):
    source = f'extern "C" __global__ void rows({parameter}, float* __restrict__ y) {{\n  {use}\n}}\n'
    assert codes(Bench(tmp_path).cuda(source, select="C4")) == ([("C4", 1)] if found else [])


# C5


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("  y[blockIdx.x * AXIS_N] = 1.f;", []),  # 2.56e9 is an unsigned number
        ("  y[blockIdx.x * AXIS_N * 2] = 1.f;", [4]),
        ("  const int row = blockIdx.x;\n  y[row * AXIS_N] = 1.f;", [5]),
        ("  const int row = blockIdx.x;\n  const int at = row * AXIS_N;\n  y[at] = 1.f;", [5]),
        ("  const int row = blockIdx.x;\n  *(y + row * AXIS_N) = 1.f;", [5]),
        ("  const long long row = blockIdx.x;\n  y[row * AXIS_N] = 1.f;", []),
        ("  const size_t row = blockIdx.x;\n  y[row * AXIS_N] = 1.f;", []),
        ("  const int row = blockIdx.x;\n  y[static_cast<size_t>(row) * AXIS_N] = 1.f;", []),
        ("  const int row = blockIdx.x;\n  y[static_cast<size_t>(row * AXIS_N)] = 1.f;", [5]),
        ("  const int row = blockIdx.x;\n  y[(size_t)row * AXIS_N] = 1.f;", []),
        ("  const int row = blockIdx.x;\n  if (row * AXIS_N < 0) return;\n  y[row] = 1.f;", []),  # no address
        ("  const int row = w[0];\n  y[row * AXIS_N] = 1.f;", []),
        ("  for (int row = 0; row < M; ++row) y[row * AXIS_N] = 1.f;", [4]),
        ("  for (long long row = 0; row < M; ++row) y[row * AXIS_N] = 1.f;", []),
        ("  int row = blockIdx.x;\n  row %= 8;\n  y[row * AXIS_N] = 1.f;", []),
        ("  int row = 0;\n  while (w[0] > 1.f) row += 3;\n  y[row * AXIS_N] = 1.f;", []),
    ],
)
def test_an_offset_overflows_where_its_type_ends(lint, body, lines):
    assert lint(body, select="C5") == [("C5", line) for line in lines]


def test_constants_of_the_file_and_of_its_headers_are_known(tmp_path):
    bench = Bench(tmp_path)
    (bench.root / "rows" / "shared.cuh").write_text("namespace a { constexpr int COLUMNS = AXIS_N * 4; }\n")
    body = "  const int row = blockIdx.x;\n  y[row * a::COLUMNS / WIDE] = 1.f;"
    source = f'#include "shared.cuh"\n#define WIDE (2 + 2)\n{KERNEL.format(body=body)}'
    [finding] = bench.cuda(source, select="C5").findings
    assert (finding.place.line, finding.place.column) == (6, 5)
    assert f"{19_999_999 * 512:,}" in finding.message


# C6


def test_registers_that_nobody_is_short_of_are_no_finding(lint):
    assert lint("  y[blockIdx.x] = x[0];", select="C6") == []


def test_a_bound_on_blocks_that_costs_nothing_is_no_finding(tmp_path):
    source = (HEAD + KERNEL.format(body="  y[blockIdx.x] = w[0];")).replace("void", "void __launch_bounds__(128, 4)")
    assert codes(Bench(tmp_path).cuda(source, select="C6")) == []


# The source as a whole


def test_a_place_counts_characters_and_not_bytes(lint):
    assert lint("  /* größer */ if (threadIdx.x) __syncthreads();", select="C2") == [("C2", 4)]


def test_a_source_that_is_no_cuda_is_read_as_far_as_it_goes(tmp_path):
    assert codes(Bench(tmp_path).cuda("this is {{{ no kernel ((")) == []


@pytest.mark.parametrize(
    "statement",
    [
        "  const int a = " + " + ".join(["M"] * 50) + ";",
        "  auto f = [&](int i) { return y[i]; };",
        "  for (;;) break;",
        "  int a = 1 / 0 + 5 % 0;",
        "  y[0x7fffffffffffffffffff] = 1.f;",
        "  goto end;\n  end:;",
        "  y[M ? 1 : 2] = blockIdx.w + threadIdx.x.y;",
    ],
)
def test_a_strange_statement_stops_nothing(lint, statement):
    lines = statement.count("\n")
    assert lint(f"{statement}\n  if (threadIdx.x) __syncthreads();", select="C2,C3,C4,C5") == [("C2", 5 + lines)]


def test_an_expression_that_is_nested_without_end_is_told(tmp_path):
    body = f"  y[{'+'.join(['M'] * 50_000)}] = 1.f;"
    with pytest.raises(BuildError, match="nested too deeply"):
        Bench(tmp_path).cuda(KERNEL.format(body=body))
