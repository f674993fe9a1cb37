"""What is done around samples on a GPU, as far as it goes without one: addresses, counts of launches, code."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from gdnbench.workers import cold, placement
from gdnbench.workers.cold import DitherAndScrub


def test_ranges_are_the_addresses_and_sizes_in_bytes(monkeypatch):
    on_cpu = SimpleNamespace(tensor=lambda rows, dtype, device: torch.tensor(rows, dtype=dtype), int64=torch.int64)
    monkeypatch.setattr(placement, "torch", on_cpu)
    tensors = [torch.zeros(3, 5, dtype=torch.bfloat16), torch.zeros(7)]
    listed = placement.list_ranges(iter(tensors))
    assert listed.dtype == torch.int64
    assert listed.tolist() == [[tensors[0].data_ptr(), 30], [tensors[1].data_ptr(), 28]]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("source", "names"),
    [
        (cold.DEMOTE_SOURCE, ("gdnbench_demote_listed", "gdnbench_demote_one")),
        (cold.BLOCKING_SOURCE, ("gdnbench_block",)),
        (cold.SHARED_POISON_SOURCE, ("gdnbench_poison_shared",)),
    ],
)
def test_what_is_launched_around_samples_compiles_for_every_gpu(source, names, arch):
    from cuda.core import Program, ProgramOptions

    code = Program(source, "c++", ProgramOptions(arch=arch)).compile("cubin", name_expressions=names)
    assert all(name.encode() in code.code for name in names)


@pytest.fixture
def around(monkeypatch):
    """Makes a `DitherAndScrub` whose launches are counted; what is scrubbed is kept."""
    launched, scrubbed = [], []
    code = SimpleNamespace(get_kernel=lambda name: name)
    device = SimpleNamespace(set_current=lambda: None, arch="90")
    stream = SimpleNamespace(from_handle=lambda handle: handle)
    cuda = SimpleNamespace(current_device=lambda: 0, current_stream=lambda: SimpleNamespace(cuda_stream=77))
    for name, stand_in in {
        "torch": SimpleNamespace(cuda=cuda),
        "Device": lambda _number: device,
        "_compile": lambda _source, _arch: code,
        "Stream": stream,
        "launch": lambda *arguments: launched.append(arguments),
    }.items():
        monkeypatch.setattr(cold, name, stand_in)
    monkeypatch.setattr(cold, "L2Scrubber", lambda: lambda *tensors: scrubbed.append(tensors))
    return lambda seed: (DitherAndScrub(seed), launched, scrubbed)


def _dithers(around, seed, samples=800):
    hooks, launched, _ = around(seed)
    counts = []
    for _ in range(samples):
        launched.clear()
        hooks.before()
        counts.append(len(launched))
    return counts


def test_before_a_sample_there_are_up_to_seven_empty_launches_each_as_often(around):
    counts = Counter(_dithers(around, seed=1))
    assert sorted(counts) == list(range(8))
    assert min(counts.values()) > 60


def test_empty_launches_go_to_the_stream_that_is_timed(around):
    hooks, launched, scrubbed = around(seed=1)
    for _ in range(20):
        hooks.before()
    assert {(stream, kernel) for stream, _, kernel in launched} == {(77, "gdnbench_nothing")}
    assert scrubbed == []


def test_after_a_sample_its_inputs_and_outputs_are_scrubbed(around):
    hooks, launched, scrubbed = around(seed=1)
    hooks.after("ranges", ("output", "new_state"))
    assert scrubbed == [("ranges", ("output", "new_state"))]
    assert launched == []
