"""What binding prepares, so that a launch needs nothing more, and what a launch finds in its outputs."""

from types import SimpleNamespace

import pytest
import torch
import triton
from bundled import CATALOG
from decode_workloads import decode_at
from triton.runtime import _allocation
from write_kernels import on_torch, write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch import Workspace, bind, load_numerics
from gdnbench.launch.bind import _with_scratch
from gdnbench.launch.workspace import is_poison
from gdnbench.model.kernel import NOTHING_IN_PLACE

SMALL = decode_at(B=2, HQ=2, HV=4, K=32, V=16)
KERNEL = "def bind(t, workload, params): return lambda: (t.output, t.new_state)\n"


@pytest.fixture
def catalog(tmp_path):
    for name, more in (("fresh", ""), ("inplace", ", in_place={'new_state': 'state'}")):
        write_kernel(tmp_path / "decode" / name, on_torch(f"decode-{name}", more), KERNEL)
    return load_catalog([default_roots()[0], tmp_path])


@pytest.mark.parametrize(("name", "begun"), [("decode-fresh", False), ("decode-inplace", True)])
def test_a_kernel_that_updates_in_place_is_bound_to_a_state_to_start_from(catalog, name, begun):
    op, entry = catalog.ops["decode"], catalog.entries[name]
    numerics = load_numerics(op, catalog.op_folders["decode"])
    workspace = Workspace.make(op, numerics, SMALL, seed=3, device="cpu", scenario="typical")
    _, state = bind(entry, entry.default, workspace)()
    assert torch.equal(state, workspace.inputs["state"]) is begun


def compiled_with(scratch_size):
    return SimpleNamespace(metadata=SimpleNamespace(num_ctas=2, global_scratch_size=scratch_size))


def ask_allocator(nbytes):
    """What Triton's launcher does for a kernel that makes tensor descriptors."""
    return _allocation._allocator.get()(nbytes, 128, None)


def test_every_launch_gets_the_scratch_that_binding_allocated():
    given = []
    launch = _with_scratch(lambda nbytes: given.append(ask_allocator(nbytes)), compiled_with(256), (4, 8, 1), "cpu")
    for _ in range(2):
        launch(2 * 4 * 8 * 256)
    assert given[0] is given[1]
    assert given[0].nbytes == 2 * 4 * 8 * 256


def test_an_allocator_that_another_library_sets_is_not_asked_and_not_displaced(monkeypatch):
    def of_another(_nbytes, _alignment, _stream):
        raise AssertionError("an allocation in a launch")

    before = _allocation._allocator.get()
    launch = _with_scratch(ask_allocator, compiled_with(256), (1, 1, 1), "cpu")
    triton.set_allocator(of_another)
    try:
        assert launch(512).nbytes == 512
        assert _allocation._allocator.get() is of_another
    finally:
        triton.set_allocator(before)


def test_a_kernel_without_descriptors_is_launched_as_it_is():
    def launch():
        """Nothing."""

    assert _with_scratch(launch, compiled_with(0), (4, 8, 1), "cpu") is launch


DECODE = CATALOG.ops["decode"]
NUMERICS = load_numerics(DECODE, CATALOG.op_folders["decode"])
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
