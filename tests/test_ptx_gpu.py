"""The interpreter of PTX against a GPU: the same kernels on the same inputs."""

import numpy as np
import pytest
import torch
from ptx_data import run
from test_ptx_arithmetic import BODIES, SOURCE, N

pytestmark = pytest.mark.gpu

INEXACT = {"f_exp": 4, "f_log1p": 4, "f_sin": 8, "f_many": 16, "d_functions": 16}
"""Bodies that use the special function unit, whose last bits are not known, and the ulps that may differ."""


@pytest.fixture(scope="module")
def on_gpu():
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch
    from cuda.pathfinder import find_nvidia_header_directory

    device = Device(torch.cuda.current_device())
    device.set_current()
    options = ProgramOptions(
        std="c++17", arch=f"sm_{device.arch}", include_path=find_nvidia_header_directory("cudart"), fma=True
    )
    module = Program(SOURCE, "c++", options).compile("cubin", name_expressions=tuple(BODIES))

    def call(name, x, y):
        tensors = [torch.from_numpy(each.copy()).cuda() for each in (x, y, np.zeros_like(x))]
        stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
        pointers = [tensor.data_ptr() for tensor in tensors]
        launch(stream, LaunchConfig(grid=N // 64, block=64), module.get_kernel(name), *pointers)
        torch.cuda.synchronize()
        return tensors[2].cpu().numpy()

    return call


@pytest.mark.parametrize("name", BODIES)
def test_it_computes_what_the_gpu_does(on_gpu, name):
    kind = {"float": np.float32, "int": np.int32, "double": np.float64}[BODIES[name][0]]
    draw = np.random.default_rng(3)
    x, y = (draw.normal(size=(2, N)) * 3).astype(kind) if kind != np.int32 else draw.integers(-999, 999, (2, N), kind)
    y[y == 0] = 5
    expected, got = on_gpu(name, x, y), np.zeros_like(x)
    found, _ = run(SOURCE, x.copy(), y.copy(), got, entry=name, blocks=(N // 64, 1, 1), threads=64)
    assert found == ()
    if name in INEXACT:
        apart = np.abs(got - expected) / np.spacing(np.maximum(np.abs(expected), np.finfo(kind).tiny))
        assert np.nanmax(apart) <= INEXACT[name]
    else:
        np.testing.assert_array_equal(got, expected)
