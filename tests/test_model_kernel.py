import pytest

from gdnbench.errors import DeclarationError, ParamError
from gdnbench.model import CudaKernel, Param, Params, Requirement, TorchKernel, TritonKernel

PARAMS = {"BV": Param(default=8, choices=(8, 16)), "MODE": Param(default="fast", choices=("fast", "exact"))}


def _kernel(**more):
    return TorchKernel(name="decode-x", params=PARAMS, **more)


def test_unnamed_params_take_their_defaults():
    assert _kernel().resolve({}) == Params({"BV": 8, "MODE": "fast"})
    assert _kernel().resolve({"BV": "16"}) == Params({"BV": 16, "MODE": "fast"})


def test_params_resolve_in_the_order_declared():
    assert list(_kernel().resolve({"MODE": "exact", "BV": 16})) == ["BV", "MODE"]


def test_an_unknown_param_is_refused_with_those_that_are_known():
    with pytest.raises(ParamError, match="decode-x has no param WARPS") as caught:
        _kernel().resolve({"WARPS": 4})
    assert "BV, MODE" in caught.value.hint


def test_a_kernel_without_params_says_so():
    with pytest.raises(ParamError) as caught:
        TorchKernel(name="decode-x").resolve({"BV": 8})
    assert "none" in caught.value.hint


def test_names_are_case_sensitive():
    with pytest.raises(ParamError):
        _kernel().resolve({"bv": 8})


@pytest.mark.parametrize(("values", "why"), [({"BV": 32}, "BV=32"), ({"WARPS": 4}, "no param WARPS")])
def test_a_preset_that_cannot_be_resolved_is_refused_when_declared(values, why):
    with pytest.raises(DeclarationError, match=f"preset decode-xb: .*{why}") as caught:
        _kernel(presets={"decode-xb": values})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kernel", "language", "source"),
    [
        (CudaKernel(name="c", entry="f", grid=lambda s, p: (1,), block=lambda s, p: 32), "cuda", "kernel.cu"),
        (TritonKernel(name="t", entry="f", grid=lambda s, p: (1,)), "triton", "kernel.py"),
        (TorchKernel(name="p"), "torch", "kernel.py"),
    ],
)
def test_each_language_has_its_usual_source_file(kernel, language, source):
    assert (kernel.language, kernel.source) == (language, source)


def test_a_requirement_says_how_it_is_met():
    assert Requirement("fla", extra="fla").remedy == "pip install 'gdnbench[fla]'"
