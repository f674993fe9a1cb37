"""Names of what a kernel launches, from a graph and from CUPTI, and what of them is another launch than the check's."""

import pytest

from gdnbench.workers.activities import Activity
from gdnbench.workers.launched import COPIED, FILLED, UNKNOWN_FUNCTION, deviation, plain_name

# As the linker has it, and as a demangler gives it.
SAME = {
    "gdn_decode_v9": ("gdn_decode_v9", "gdn_decode_v9"),
    "triton_poi_fused_0": ("triton_poi_fused_0", "triton_poi_fused_0"),
    "scale": ("_Z5scalePff", "scale(float*, float)"),
    "own": ("_ZL3ownPf", "own(float*)"),
    "step": ("_ZN2gd4stepEPKf", "gd::step(float const*)"),
    "inner": ("_ZN2gdL5innerEv", "gd::inner()"),
    "gemm": ("_Z4gemmIfLi8EEvPT_", "void gemm<float, 8>(float*)"),
    "vectorized_elementwise_kernel": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
        "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
    ),
    "hidden": (
        "_ZN2at6native48_GLOBAL__N__3e2a1b0c_10_Reduce_cu_0123abcd_456786hiddenIfEEvPT_",
        "void at::native::(anonymous namespace)::hidden<float>(float*)",
    ),
    "Kernel2": ("_ZN7cutlass7Kernel2I4GemmEEvNT_6ParamsE", "void cutlass::Kernel2<Gemm>(Gemm::Params)"),
    "elementwise_kernel": (
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIfEEvvEUliE_EEviT1_",
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<float>()::{lambda(int)#1}>(int)",
    ),
    "kernel": (
        "_ZN8internal5gemvx6kernelIiffLb1ELi7EEENSt9enable_ifIXltT3_Li8EEvE4typeEPf",
        "std::enable_if<((int)7)<((int)8), void>::type internal::gemvx::kernel<int, float, float, true>(float*)",
    ),
    "gemv2T_kernel_val": (
        "_Z17gemv2T_kernel_valIi13cublasDotImplEvT0_",
        "std::enable_if<!(false), void>::type gemv2T_kernel_val<int, cublasDotImpl>(cublasDotImpl)",
    ),
    FILLED: ("Memset (Device)", "Memset (Device)"),
    COPIED: ("Memcpy", "Memcpy DtoD (Device -> Device)"),
    UNKNOWN_FUNCTION: ("_ZN", "## Call CompiledFxGraph abc ##"),
}


@pytest.mark.parametrize("own", SAME)
def test_a_function_has_one_name_mangled_and_demangled(own):
    assert {plain_name(name) for name in SAME[own]} == {own}


def launches(*names, times=10):
    return [[Activity(name, place, place + 1) for place, name in enumerate(names)] for _ in range(times)]


@pytest.mark.parametrize(
    ("timed", "told"),
    [
        (["Memset (Device)"], "1 fill"),
        (["Memcpy DtoD (Device -> Device)"] * 2, "2 copies"),
        (["gdn_v9", "gdn_v9"], "gdn_v9 (2 times)"),
        (["gdn_v8"], "gdn_v8"),
        ([], "nothing"),
        (list("abcdef"), "a, b, c, d and 2 more"),
    ],
)
def test_other_launches_are_told(timed, told):
    found = deviation(launches(*timed), ("gdn_v9",))
    assert found == f"while timed it launches {told}; when checked it launched gdn_v9"


def test_a_launch_with_fewer_or_more_records_than_usual_says_nothing():
    short, joined = launches("a", times=3), launches("a", "b", "Memset (Device)", "a", times=3)
    assert deviation([*launches("a", "b"), *short, *joined, *launches(times=2)], ("a", "b")) == ""


def test_some_of_as_many_launches_are_enough_and_one_is_not():
    usual = launches("a", "b", times=50)
    assert deviation([*usual, *launches("a", "c", times=1)], ("a", "b")) == ""
    told = "while timed it launches c; when checked it launched b; all else is the same"
    assert deviation([*usual, *launches("a", "c", times=2)], ("a", "b")) == told


def test_what_cannot_be_named_is_not_compared():
    assert deviation(launches("## region ##"), ("a",)) == ""
    assert deviation(launches("b"), ("a", UNKNOWN_FUNCTION)) == ""
    assert deviation(launches("b"), ()) == ""
    assert deviation([], ("a",)) == ""
