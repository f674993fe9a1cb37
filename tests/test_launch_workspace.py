"""What a launch finds in its outputs: poison, or, where the kernel updates in place, the values it starts from."""

import pytest
import torch
from decode_workloads import decode_at

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.workspace import is_poison
from gdnbench.model.kernel import NOTHING_IN_PLACE

CATALOG = load_catalog(default_roots()[:1])
DECODE = CATALOG.ops["decode"]
NUMERICS = load_numerics(DECODE, CATALOG.op_folders["decode"])
SMALL = decode_at(B=2, HQ=2, HV=4, K=32, V=16)
IN_PLACE = {"new_state": "state"}


@pytest.fixture
def workspace():
    return Workspace.make(DECODE, NUMERICS, SMALL, seed=3, device="cpu", scenario="typical")


def test_outputs_are_poisoned(workspace):
    for tensor in workspace.output_tensors:
        tensor.zero_()
    workspace.reset_all(NOTHING_IN_PLACE)
    assert all(is_poison(tensor).all() for tensor in workspace.output_tensors)


def test_what_is_updated_in_place_starts_from_its_input_as_drawn(workspace):
    drawn = workspace.inputs["state"].clone()
    workspace.inputs["state"].zero_()  # an earlier kernel's doing
    workspace.reset_all(IN_PLACE)
    assert torch.equal(workspace.outputs["new_state"], drawn)
    assert is_poison(workspace.outputs["output"]).all()


def test_outputs_elsewhere_are_reset_like_its_own(workspace):
    """Those of a captured launch."""
    outputs = [torch.zeros_like(tensor) for tensor in workspace.output_tensors]
    workspace.reset(outputs, IN_PLACE)
    assert is_poison(outputs[0]).all()
    assert torch.equal(outputs[1], workspace.inputs["state"])


def test_beginning_leaves_other_outputs_alone(workspace):
    workspace.outputs["output"].zero_()
    workspace.begin(IN_PLACE)
    assert not workspace.outputs["output"].any()


def test_a_copy_starts_from_the_same_values_in_memory_of_its_own(workspace):
    copy = workspace.copy()
    copy.begin(IN_PLACE)
    assert torch.equal(copy.outputs["new_state"], workspace.inputs["state"])
    assert is_poison(workspace.outputs["new_state"]).all()
