"""The interpreter of PTX against a GPU: the same kernels on the same inputs."""

import numpy as np
import pytest
import torch
from ptx_data import run
from test_ptx_arithmetic import BODIES, SOURCE, N
from test_ptx_matrices import BLOCKS, MOVED, PRODUCTS, drawn, launched, tiles, wide
from test_ptx_matrices import SOURCE as MATRICES
from test_ptx_warpgroups import BLOCKS as GROUP_BLOCKS
from test_ptx_warpgroups import CASES, IDS, arguments
from test_ptx_warpgroups import SOURCE as WARPGROUPS
from test_ptx_warpgroups import drawn as drawn_for_groups
from test_ptx_warpgroups import launched as launched_groups

pytestmark = pytest.mark.gpu

INEXACT = {"f_exp": 4, "f_exp2": 4, "f_log1p": 4, "f_sin": 8, "f_many": 16, "d_functions": 16}
"""Bodies that use the special function unit, whose last bits are not known, and the ulps that may differ."""


def compiled_for_gpu(source, entries, *, target=None, threads=64):
    """Calls a kernel of a source with tensors of which the last changes; gives that one."""
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch
    from cuda.pathfinder import find_nvidia_header_directory

    device = Device(torch.cuda.current_device())
    device.set_current()
    arch, include = target or f"sm_{device.arch}", find_nvidia_header_directory("cudart")
    options = ProgramOptions(std="c++17", arch=arch, include_path=include, fma=True)
    module = Program(source, "c++", options).compile("cubin", name_expressions=tuple(entries))

    def call(name, blocks, *arrays):
        tensors = [torch.from_numpy(np.atleast_1d(each).reshape(-1).view(np.uint8).copy()).cuda() for each in arrays]
        stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
        pointers = [tensor.data_ptr() for tensor in tensors]
        launch(stream, LaunchConfig(grid=blocks, block=threads), module.get_kernel(name), *pointers)
        torch.cuda.synchronize()
        return tensors[-1].cpu().numpy().view(arrays[-1].dtype).reshape(arrays[-1].shape)

    return call


@pytest.fixture(scope="module")
def on_gpu():
    return compiled_for_gpu(SOURCE, BODIES)


@pytest.fixture(scope="module")
def matrices_on_gpu():
    return compiled_for_gpu(MATRICES, [*(f"product_{kind}_{k}" for kind, k in PRODUCTS), *MOVED, "movmatrix"])


@pytest.fixture(scope="module")
def warpgroups_on_gpu():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("only Hopper has wgmma")
    return compiled_for_gpu(WARPGROUPS, IDS, target="sm_90a", threads=256)


@pytest.mark.parametrize("name", BODIES)
def test_it_computes_what_the_gpu_does(on_gpu, name):
    kind = {"float": np.float32, "int": np.int32, "double": np.float64}[BODIES[name][0]]
    draw = np.random.default_rng(3)
    x, y = (draw.normal(size=(2, N)) * 3).astype(kind) if kind != np.int32 else draw.integers(-999, 999, (2, N), kind)
    y[y == 0] = 5
    expected, got = on_gpu(name, N // 64, x, y, np.zeros_like(x)), np.zeros_like(x)
    found, _ = run(SOURCE, x.copy(), y.copy(), got, entry=name, blocks=(N // 64, 1, 1), threads=64)
    assert found == ()
    if name in INEXACT:
        apart = np.abs(got - expected) / np.spacing(np.maximum(np.abs(expected), np.finfo(kind).tiny))
        assert np.nanmax(apart) <= INEXACT[name]
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("kind", "k"), PRODUCTS)
def test_products_lie_where_the_gpu_puts_them(matrices_on_gpu, kind, k):
    """Sums of small integers are exact in every order: equal to the last bit, or an operand is in the wrong place."""
    a, b, c = drawn(kind, k, integers=True, seed=4)
    name = f"product_{kind}_{k}"
    np.testing.assert_array_equal(launched(name, a, b, c), matrices_on_gpu(name, BLOCKS, a, b, c))


@pytest.mark.parametrize(("kind", "k"), PRODUCTS)
def test_products_differ_from_the_gpus_by_the_rounding_of_their_sums(matrices_on_gpu, kind, k):
    """Tensor cores cut off what they align to the largest term: at most a unit of fp32's last place each."""
    a, b, c = drawn(kind, k, seed=5)
    name = f"product_{kind}_{k}"
    largest = np.abs(np.einsum("wmk,wnk->wmnk", wide(kind, a), wide(kind, b))).max(axis=3)
    allowed = (k + 1) * 2.0**-22 * np.maximum(largest, np.abs(c))
    assert np.all(np.abs(launched(name, a, b, c) - matrices_on_gpu(name, BLOCKS, a, b, c)) <= allowed)


@pytest.mark.parametrize("name", [*MOVED, "movmatrix"])
def test_tiles_lie_where_the_gpu_puts_them(matrices_on_gpu, name):
    x = tiles()
    z = np.zeros_like(x).view(np.uint32)
    np.testing.assert_array_equal(launched(name, x, x, z), matrices_on_gpu(name, BLOCKS, x, x, z))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_products_of_warpgroups_lie_where_the_gpu_puts_them(warpgroups_on_gpu, case):
    """Sums of small integers are exact in every order: equal to the last bit, or an operand is in the wrong place."""
    values = drawn_for_groups(case, integers=True, seed=6)
    got = warpgroups_on_gpu(case.name, GROUP_BLOCKS, *arguments(case, *values))
    np.testing.assert_array_equal(launched_groups(case, *values), got)


@pytest.mark.parametrize("case", CASES[:5], ids=IDS[:5])
def test_products_of_warpgroups_differ_from_the_gpus_by_the_rounding_of_their_sums(warpgroups_on_gpu, case):
    """A step of 16 cuts off what it aligns to its largest term: at most a unit of fp32's last place each."""
    a, b, c = drawn_for_groups(case, seed=7)
    got = warpgroups_on_gpu(case.name, GROUP_BLOCKS, *arguments(case, a, b, c))
    sums, peak = c, np.abs(c)
    for k in range(0, case.b.inner, 16):
        terms = np.einsum(
            "gmk,gnk->gmnk", wide("bf16", a)[..., k : k + 16], wide("bf16", b)[[0, 0, 1, 1], :, k : k + 16]
        )
        sums = sums + terms.sum(axis=3)
        peak = np.maximum(peak, np.maximum(np.abs(terms).max(axis=3), np.abs(sums)))
    allowed = (case.b.inner + case.b.inner // 16) * 2.0**-22 * peak
    assert np.all(np.abs(launched_groups(case, a, b, c) - got) <= allowed)
