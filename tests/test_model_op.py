import pytest

from gdnbench.catalog import default_roots, load_catalog
from gdnbench.model import Shape

DECODE = load_catalog(default_roots()[:1]).ops["decode"]
HEAD_CONSTANTS = 64  # A_log and dt_bias: 8 heads of fp32 each, whatever the batch


@pytest.mark.parametrize("batch", [1, 8, 64, 1000])
def test_traffic_of_the_contests_layout(batch):
    assert DECODE.traffic_bytes(Shape(B=batch)) == 1_054_752 * batch + HEAD_CONSTANTS


def test_traffic_is_state_twice_and_the_small_tensors_once():
    shape = Shape(B=2, HQ=1, HV=2, K=4, V=3)
    state = 2 * 2 * 3 * 4 * 4
    q_and_k, v_and_output, gates, constants = 2 * 2 * 4 * 2, 2 * 2 * 2 * 3 * 2, 2 * 2 * 2 * 2, 2 * 2 * 4
    assert DECODE.traffic_bytes(shape) == 2 * state + q_and_k + v_and_output + gates + constants


@pytest.mark.parametrize("batch", [1, 64])
def test_the_copying_floor_moves_the_state_twice_and_nothing_else(batch):
    assert DECODE.copy_bytes(Shape(B=batch)) == 2 * batch * 8 * 128 * 128 * 4


def test_the_contract_is_the_contests():
    shape = Shape(B=3)
    sizes = {spec.name: (spec.sizes(shape), spec.dtype) for spec in (*DECODE.inputs, *DECODE.outputs)}
    assert sizes == {
        "q": ((3, 1, 4, 128), "bf16"),
        "k": ((3, 1, 4, 128), "bf16"),
        "v": ((3, 1, 8, 128), "bf16"),
        "state": ((3, 8, 128, 128), "fp32"),
        "A_log": ((8,), "fp32"),
        "dt_bias": ((8,), "fp32"),
        "a": ((3, 1, 8), "bf16"),
        "b": ((3, 1, 8), "bf16"),
        "output": ((3, 1, 8, 128), "bf16"),
        "new_state": ((3, 8, 128, 128), "fp32"),
    }


def test_the_default_shape_is_the_first_layout_at_batch_1():
    assert DECODE.default_shape == Shape(B=1, HQ=4, HV=8)


def test_work_grows_with_the_batch_and_the_heads():
    assert DECODE.flops(Shape(B=2)) == 2 * DECODE.flops(Shape())
    assert DECODE.flops(Shape(HQ=8, HV=16)) == 2 * DECODE.flops(Shape())
