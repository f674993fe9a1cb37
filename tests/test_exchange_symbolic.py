"""What a declaration computes from a workload, as text that computes the same."""

import math
import shutil
import subprocess
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdnbench import Axis, AxisList, Params, WorkloadSpec
from gdnbench.errors import UsageError
from gdnbench.exchange.reference import as_cpp, as_python, sizes_of

SPEC = WorkloadSpec(axes=(Axis("B", default=1), Axis("N", default=3), Axis("H", default=8, compile_time=True)))
PARAMS = Params({"WARPS": 4})

FUNCTIONS = [
    lambda s, p: (s.H // p.WARPS, s.B * s.H),
    lambda s, p: ((s.B + p.WARPS - 1) // p.WARPS, s.N, 1),
    lambda s, p: -(-s.B * s.N // p.WARPS),
    lambda s, p: 32 * p.WARPS,
    lambda s, p: (100 - s.B) % s.N + 1000 // s.B - 7 % s.N,
    lambda s, p: (s.B - 50) // 7 + (s.B - 50) % 7 + 5 - s.N,
]
TABLED = [lambda s, p: max(1, s.B // 2), lambda s, p: (math.ceil(s.B / s.N), 7), lambda s, p: 256 if s.B > 8 else 128]


def expressions(function, workloads=None):
    workloads = workloads or [SPEC.workload({"B": 5, "N": 2})]
    return sizes_of(function, PARAMS, {"H": 8}, ["B", "N"], workloads, attrgetter("axes"))


def direct(function, workload):
    found = function(workload, PARAMS)
    return found if isinstance(found, tuple) else (found,)


@given(function=st.sampled_from(FUNCTIONS), B=st.integers(1, 300), N=st.integers(1, 40))
def test_in_python_it_is_the_same_at_any_size(function, B, N):
    found = [eval(as_python(size), {"B": B, "N": N}) for size in expressions(function)]
    assert tuple(found) == direct(function, SPEC.workload({"B": B, "N": N}))


@pytest.mark.parametrize("function", TABLED)
def test_what_asks_for_a_value_becomes_a_table_of_what_is_exported(function):
    workloads = [SPEC.workload({"B": B, "N": N}) for B in (1, 8, 9) for N in (1, 3)]
    sizes = expressions(function, workloads)
    for workload in workloads:
        found = [eval(as_python(size), dict(workload.axes)) for size in sizes]
        assert tuple(found) == direct(function, workload)
    with pytest.raises(KeyError):
        eval(as_python(sizes[0]), {"B": 77, "N": 1})


def test_what_depends_on_lists_is_refused():
    spec = WorkloadSpec(lists=(AxisList("lengths", default=(1, 2)),))
    workloads = [spec.workload({"lengths": lengths}) for lengths in ((1, 2), (3, 4))]
    with pytest.raises(UsageError, match="lists"):
        sizes_of(lambda s, p: sum(s.lengths), PARAMS, {}, [], workloads, attrgetter("axes"))
    assert sizes_of(lambda s, p: len(s.lengths), PARAMS, {}, [], workloads, attrgetter("axes")) == (2,)


def test_what_depends_on_lists_becomes_a_table_of_the_derived_sizes_that_inputs_tell():
    spec = WorkloadSpec(lists=(AxisList("lengths", default=(1, 2)),))
    workloads = [spec.workload({"lengths": lengths}) for lengths in ((1, 2), (3, 4, 5), (70,))]

    def named(workload):
        return {"T": sum(workload.lengths), "N": len(workload.lengths)}

    (chunks,) = sizes_of(lambda s, p: sum(-(-n // 64) for n in s.lengths), PARAMS, {}, ["T", "N"], workloads, named)
    assert [eval(as_python(chunks), named(workload)) for workload in workloads] == [2, 3, 2]


@pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler")
def test_in_cpp_it_is_the_same(tmp_path):
    from gdnbench.exchange.solution import DIVISION

    workloads = [SPEC.workload({"B": B, "N": N}) for B in (1, 2, 8, 49, 50, 51, 99, 100, 101, 300) for N in (1, 3, 40)]
    found = [size for function in (*FUNCTIONS, *TABLED) for size in expressions(function, workloads)]
    prints = "\n".join(f'std::printf("%lld\\n", static_cast<long long>({as_cpp(size)}));' for size in found)
    sizes = ", ".join(f"{{{each.B}, {each.N}}}" for each in workloads)
    (tmp_path / "main.cpp").write_text(f"""
#include <cstdint>
#include <cstdio>
#include <stdexcept>
{DIVISION}
void tell(int64_t B, int64_t N) {{ {prints} }}
int main() {{ int64_t sizes[][2] = {{{sizes}}}; for (auto& each : sizes) tell(each[0], each[1]); }}
""")
    subprocess.run(["g++", "-std=c++17", "-o", tmp_path / "main", tmp_path / "main.cpp"], check=True)
    told = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    every = [value for each in workloads for function in (*FUNCTIONS, *TABLED) for value in direct(function, each)]
    assert list(map(int, told)) == every
