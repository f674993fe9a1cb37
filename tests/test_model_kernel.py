from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import DeclarationError
from gdnbench.model.declaration import Param, Params
from gdnbench.model.kernel import TorchKernel, TritonKernel
from gdnbench.model.workload import Shape

PARAMS = {"BV": Param(default=8, choices=(8, 16)), "MODE": Param(default="fast", choices=("fast", "exact"))}

B8 = Shape(B=8)
DECODE = CATALOG.ops["decode"]


def _kernel(**more):
    return TorchKernel(name="decode-x", params=PARAMS, **more)


def test_unnamed_params_take_their_defaults():
    assert _kernel().resolve({}) == Params({"BV": 8, "MODE": "fast"})
    assert _kernel().resolve({"BV": "16"}) == Params({"BV": 16, "MODE": "fast"})


@pytest.mark.parametrize("arch", ["sm_100", "sm_100a", "sm_120"])
def test_a_triton_kernel_may_need_an_architectures_instructions(arch):
    kernel = TritonKernel(name="t", entry="f", grid=lambda s, p: (1,), since="sm_100")
    assert kernel.fits(arch)
    assert not kernel.fits("sm_90")
    assert TritonKernel(name="t", entry="f", grid=lambda s, p: (1,)).fits("sm_90")


def test_what_is_no_architecture_is_refused_when_declared():
    with pytest.raises(DeclarationError, match="since 'hopper' is not an architecture"):
        TritonKernel(name="t", entry="f", grid=lambda s, p: (1,), since="hopper")


def _by_shape(*batches):
    """A kernel with a value of its own for each batch size."""
    choices = (0, *batches)
    by_shape = {Shape(B=batch): {"AT": batch} for batch in batches}
    return _entry(TorchKernel(name="decode-x", params={"AT": Param(default=0, choices=choices)}, by_shape=by_shape))


def _entry(kernel):
    return CatalogEntry(kernel, DECODE, Path(), Path(), "")


@pytest.mark.parametrize(
    ("batch", "nearest"), [(1, 1), (2, 1), (3, 8), (8, 8), (16, 8), (22, 8), (23, 64), (64, 64), (10**6, 64)]
)
def test_defaults_are_those_of_the_nearest_workload_on_a_logarithmic_scale(batch, nearest):
    assert _by_shape(64, 1, 8).defaults(decode_at(B=batch))["AT"] == nearest


@pytest.mark.parametrize(("one", "middle", "other"), [(1, 2, 4), (16, 24, 36), (9, 15, 25), (49, 77, 121)])
def test_halfway_between_two_workloads_the_smaller_ones_defaults_hold(one, middle, other):
    for batches in ((one, other), (other, one)):
        assert _by_shape(*batches).defaults(decode_at(B=middle))["AT"] == one


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        *(
            ({field: {key: values}}, f"{told}: .*{why}")
            for field, key, told in (("presets", "decode-xb", "preset decode-xb"), ("by_shape", B8, "by_shape .*B=8.*"))
            for values, why in (({"BV": 32}, "BV=32"), ({"WARPS": 4}, "no param WARPS"))
        ),
        ({"by_shape": {8: {"BV": 16}}}, "by_shape 8: not a Shape"),
        ({"by_shape": {"B=8": {"BV": 16}}}, "by_shape 'B=8': not a Shape"),
    ],
)
def test_settings_that_cannot_hold_are_refused_when_declared(declared, why):
    with pytest.raises(DeclarationError, match=why) as caught:
        _kernel(**declared)
    assert caught.value.hint
