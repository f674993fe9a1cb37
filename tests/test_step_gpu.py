"""Steps on a GPU: every path computes what the op's oracle expects, and is timed."""

import ctypes

import pytest

from gdnbench.store.tables import read_steps

pytestmark = pytest.mark.gpu

QUICK = ("--layers", "4", "--rounds", "3", "--processes", "1", "--samples", "3", "--quiet")


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    from typer.testing import CliRunner

    from gdnbench.verbs.app import app

    def call(*words):
        folder = tmp_path_factory.mktemp("results")
        done = CliRunner().invoke(app, ["step", *words, *QUICK, "--out", str(folder)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return max(path for path in folder.iterdir() if not path.name.startswith("."))

    return call


KERNELS = ("decode-v9", "decode-v9-pdl", "decode-v9-layers", "decode-triton")


@pytest.fixture(scope="module")
def rows(step):
    found = read_steps(step(*KERNELS, "--shape", "B=1"))
    return {(row.label, row.path, row.l2): row for row in found if not row.is_again}


ONLY = {"graph-pdl": {"decode-v9-pdl"}, "persistent": {"decode-v9-layers"}}


@pytest.mark.parametrize("path", ["python", "c-loop", "graph", "graph-pdl", "persistent"])
@pytest.mark.parametrize("label", KERNELS)
@pytest.mark.parametrize("l2", ["resident", "evicted", "persisting"])
def test_a_path_is_timed_where_it_can_be(rows, label, path, l2):
    row = rows[label, path, l2]
    possible = label in ONLY.get(path, {label}) and not (l2 == "persisting" and path in {"python", "persistent"})
    assert row.status == ("ok" if possible else "unsupported"), row.reason
    if possible:
        assert 0.3 < row.queued_us <= 1.2 * row.step_us
        assert (row.kernels_us is None) == (path == "graph-pdl")
        assert row.host_us > 0


def test_a_graph_takes_less_of_the_host_than_python(rows):
    for l2 in ("resident", "evicted"):
        assert rows["decode-v9", "graph", l2].host_us < rows["decode-v9", "python", l2].host_us


def test_memory_read_between_layers_takes_time(step):
    plain = {row.path: row for row in read_steps(step("decode-v9", "--path", "c-loop,graph", "--l2", "evicted"))}
    more = read_steps(step("decode-v9", "--path", "c-loop,graph", "--l2", "evicted", "--between", "64"))
    for row in more:
        assert row.status == "ok", row.reason
        assert row.queued_us > plain[row.path].queued_us + 5


def test_a_chain_that_is_wrong_is_not_timed(tmp_path):
    """A layer whose state the C loop was made to take from another layer fails its gates."""
    import torch

    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.select import find_variant
    from gdnbench.launch import load_numerics
    from gdnbench.step.worker.layers import Chain, Layers, WrongError
    from gdnbench.step.worker.loop import CLoop, listed
    from gdnbench.workers.device import CudaDevice

    catalog = load_catalog()
    entry = catalog.entries["decode-v9"]
    op, loop, device = entry.op, CLoop(), CudaDevice()
    workload = op.workload({"B": 1})
    with device.current():
        numerics = load_numerics(op, catalog.op_folders["decode"])
        layers = Layers.draw(op, numerics, workload, layers=2, seed=1, stand_in=None)
        chain = Chain(entry, find_variant(catalog, "decode", "decode-v9")[1], layers)
        launches, owners = chain.launches(loop)
        assert owners == [0, 1]
        chain.reset()
        loop.launch_plain(listed(launches), device.stream.cuda_stream)
        torch.cuda.synchronize()
        chain.check()
        launches[1].arguments = launches[0].arguments
        chain.reset()
        loop.launch_plain(listed(launches), device.stream.cuda_stream)
        torch.cuda.synchronize()
        with pytest.raises(WrongError):
            chain.check()
    assert ctypes.sizeof(launches[0]) == 72
