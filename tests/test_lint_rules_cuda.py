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

    def call(body):
        return codes(bench.cuda(HEAD + KERNEL.format(body=body)))

    return call


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("  y[blockIdx.x * AXIS_N] = 1.f;", []),  # 2.56e9 is an unsigned number
        ("  y[blockIdx.x * AXIS_N * 2] = 1.f;", [4]),
        ("  const int row = blockIdx.x;\n  y[row * AXIS_N] = 1.f;", [5]),
        ("  const int row = blockIdx.x;\n  const int at = row * AXIS_N;\n  y[at] = 1.f;", [5]),
        ("  const int row = blockIdx.x;\n  *(y + row * AXIS_N) = 1.f;", [5]),
        ("  const int row = blockIdx.x;\n  y += row * AXIS_N;\n  y[0] = 1.f;", [5]),
        (
            "  struct Where { __device__ int of(int row) const { return row * AXIS_N; } };\n"
            "  const Where where{};\n  y[where.of(blockIdx.x)] = 1.f;",
            [4],
        ),
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
    assert lint(body) == [("C5", line) for line in lines]


def test_constants_of_the_file_and_of_its_headers_are_known(tmp_path):
    bench = Bench(tmp_path)
    (bench.root / "rows" / "shared.cuh").write_text("namespace a { constexpr int COLUMNS = AXIS_N * 4; }\n")
    body = "  const int row = blockIdx.x;\n  y[row * a::COLUMNS / WIDE] = 1.f;"
    source = f'#include "shared.cuh"\n#define WIDE (2 + 2)\n{KERNEL.format(body=body)}'
    [finding] = bench.cuda(source).findings
    assert (finding.place.line, finding.place.column) == (6, 5)
    assert f"{19_999_999 * 512:,}" in finding.message


WIDE = "int row = blockIdx.x; y[row * AXIS_N] = 1.f;"


def test_a_place_counts_characters_and_not_bytes(tmp_path):
    source = HEAD + KERNEL.format(body=f"  /* größer */ {WIDE}")
    [finding] = Bench(tmp_path).cuda(source).findings
    assert (finding.place.line, finding.place.column) == (4, 40)


def test_a_source_that_is_no_cuda_is_read_as_far_as_it_goes(tmp_path):
    assert codes(Bench(tmp_path).cuda("this is {{{ no kernel ((")) == []


@pytest.mark.parametrize(
    "statement",
    [
        "  auto f = [&](int i) { return y[i]; };",
        "  int a = 1 / 0 + 5 % 0;",
        "  y[0x7fffffffffffffffffff] = 1.f;",
        "  y[M ? 1 : 2] = blockIdx.w + threadIdx.x.y;",
    ],
)
def test_a_strange_statement_stops_nothing(lint, statement):
    assert ("C5", 5 + statement.count("\n")) in lint(f"{statement}\n  {WIDE}")


def test_an_expression_that_is_nested_without_end_is_told(tmp_path):
    body = f"  y[{'+'.join(['M'] * 3_000)}] = 1.f;"
    with pytest.raises(BuildError, match="nested too deeply"):
        Bench(tmp_path).cuda(KERNEL.format(body=body))
