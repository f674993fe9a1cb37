"""The table of GPUs on paper: complete, cited, named as the driver's names become, and packed with gdnbench."""

from dataclasses import fields

import pytest

from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.gpu import gpu_slug

DRIVERS_NAMES = {
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA A100-SXM4-80GB": "a100",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H200": "h200",
    "NVIDIA B200": "b200",
}
VALUES = {"bandwidth_gbs", "boost_mhz", "sms", "l2_bytes", "peak_tflops", "tensor_mhz"}


@pytest.mark.parametrize(("name", "slug"), DRIVERS_NAMES.items())
def test_a_gpu_is_found_by_the_name_that_its_driver_gives(name, slug):
    spec = spec_of(gpu_slug(name))
    assert (spec.slug, type(spec)) == (slug, GpuSpec)


@pytest.mark.parametrize("slug", ["", "cpu", "gpu", "rtx3090ti", "B200", "h20", "../gpus", "nameless"])
def test_an_unknown_gpu_has_no_spec(slug):
    assert spec_of(slug) is None


@pytest.mark.parametrize("slug", DRIVERS_NAMES.values())
def test_every_value_has_a_source_and_nothing_else_has(slug):
    spec = spec_of(slug)
    assert set(spec.sources) == VALUES
    assert all(len(source) > 20 for source in spec.sources.values())
    assert {field.name for field in fields(spec)} - {"slug", "name", "sources"} == VALUES


@pytest.mark.parametrize(("slug", "operations"), [("a100", 2048), ("h100", 4096), ("h200", 4096), ("b200", 8192)])
def test_tensor_cores_are_rated_at_a_clock_below_the_highest(slug, operations):
    spec = spec_of(slug)
    assert spec.sms * operations * spec.tensor_mhz / 1e6 == pytest.approx(spec.peak_tflops["bf16"], rel=0.001)
    assert spec.most_tflops("bf16") == pytest.approx(spec.sms * operations * spec.boost_mhz / 1e6, rel=0.001)
    assert spec.most_tflops("fp32") == spec.peak_tflops["fp32"]
