"""Numbers in nvfp4: what is packed and tiled comes back, each in its place, and what is called exact is."""

import pytest
import torch
from nvfp4_data import by_tile, numbers, scaled

from gdnbench import nvfp4

EVERY_SCALE = torch.arange(127, dtype=torch.uint8).view(nvfp4.FP8)  # e4m3's numbers that are not negative


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_code_times_every_scale_is_exact(dtype):
    codes = torch.arange(16, dtype=torch.uint8).repeat(len(EVERY_SCALE), 1)
    found = nvfp4.unpacked(nvfp4.packed(codes), EVERY_SCALE[:, None], dtype)
    assert torch.equal(found.double(), numbers(codes) * EVERY_SCALE.double()[:, None])
    sizes = found.double().abs()[1:, 1:8]
    assert (sizes.min(), sizes.max()) == (nvfp4.SMALLEST, 2688)
    assert sizes.min() > torch.finfo(torch.float16).tiny  # no subnormal of fp16


def test_packing_is_undone():
    codes = torch.randint(0, 16, (5, 64), dtype=torch.uint8)
    scales = torch.ones(5, 4).to(nvfp4.FP8)
    bits = nvfp4.packed(codes)
    assert bits.shape == (5, 32)
    assert torch.equal(nvfp4.unpacked(bits, scales, torch.float64), scaled(bits, scales))
    assert torch.equal(numbers(codes), scaled(bits, scales))


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (128, 4), (130, 8), (256, 20)])
def test_scales_in_tiles_lie_where_cublas_looks_for_them(rows, columns):
    plain = (torch.arange(rows * columns) % 126).to(torch.uint8).view(rows, columns).view(nvfp4.FP8)
    tiles = nvfp4.tiled(plain)
    assert tuple(tiles.shape) == (nvfp4.tiled_rows(rows), columns)
    for row in {0, min(1, rows - 1), rows // 2, rows - 1}:
        for column in range(columns):
            assert by_tile(tiles, row, column) == float(plain[row, column])
    assert torch.equal(nvfp4.untiled(tiles, rows).view(torch.uint8), plain.view(torch.uint8))
    assert int(tiles.float().isnan().sum()) == tiles.numel() - plain.numel()


def test_each_matrix_has_tiles_of_its_own():
    plain = torch.arange(3 * 40 * 4).remainder(126).to(torch.uint8).view(3, 40, 4).view(nvfp4.FP8)
    tiles = nvfp4.tiled(plain)
    for one, of_one in zip(plain, tiles, strict=True):
        assert torch.equal(nvfp4.tiled(one).view(torch.uint8), of_one.view(torch.uint8))


@pytest.mark.parametrize("scenario", nvfp4.SCENARIOS)
def test_draws_of_a_smaller_size_are_as_much_smaller(scenario):
    def root_mean_square(size):
        pair = nvfp4.draw_pair(33, 35, 512, scenario, torch.Generator().manual_seed(3), size)
        product = nvfp4.product(*(nvfp4.stored(coded, len(coded[0]), "cpu") for coded in pair))
        return float(product.square().mean().sqrt())

    assert root_mean_square(1 / 8) == pytest.approx(root_mean_square(1.0) / 64, rel=0.15)


def test_a_product_of_whole_numbers_has_no_roundoff_and_any_other_has():
    (a, b) = (
        nvfp4.stored(coded, 7, "cpu")
        for coded in nvfp4.draw_pair(7, 7, 1024, "cancelling", torch.Generator().manual_seed(1))
    )
    product, size = nvfp4.product_roundoff(a, b)
    assert torch.equal(product.double(), nvfp4.product(a, b))
    assert not size.any()
    b[1].view(torch.uint8)[2, 0] = 1  # the smallest scale: its terms are multiples of 2^-11
    assert nvfp4.product_roundoff(a, b)[1].all(0).tolist() == [False, False, True, False, False, False, False]
