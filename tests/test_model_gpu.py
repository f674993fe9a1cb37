"""A model's short name, and what is known of it."""

from dataclasses import fields

import pytest

from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.gpu import gpu_slug

SLUGS = {
    "NVIDIA H200": "h200",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb": "h100",
    "NVIDIA H20": "h20",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B200": "b200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA A100-SXM4-80GB": "a100",
    "A100-PCIE-40GB": "a100",
    "NVIDIA A10G": "a10g",
    "NVIDIA L40S": "l40s",
    "Tesla V100S-PCIE-32GB": "v100s",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx3090ti",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx4070tisuper",
    "NVIDIA RTX A6000": "rtxa6000",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtxpro6000",
    "Quadro P5000": "p5000",
    "NVIDIA TITAN RTX": "titanrtx",
    "NVIDIA Graphics Device": "gpu",
    "": "gpu",
}


@pytest.mark.parametrize(("name", "slug"), SLUGS.items())
def test_a_drivers_name_becomes_the_models_short_name(name, slug):
    assert gpu_slug(name) == slug


@pytest.mark.parametrize("name", ["../../etc", "Ü ™ GPU", "NVIDIA H200\n", "a" * 300, "NVIDIA\tH100/H200"])
def test_whatever_the_name_the_slug_is_safe_in_a_folders_name(name):
    slug = gpu_slug(name)
    assert slug
    assert slug.isascii()
    assert slug.isalnum()


SPECIFIED = ("rtx3090", "a100", "h100", "h200", "b200")
VALUES = {"bandwidth_gbs", "boost_mhz", "sms", "l2_bytes", "peak_tflops", "tensor_mhz"}


@pytest.mark.parametrize("slug", ["", "cpu", "gpu", "rtx3090ti", "B200", "h20", "../gpus", "nameless"])
def test_an_unknown_gpu_has_no_spec(slug):
    assert spec_of(slug) is None


@pytest.mark.parametrize("slug", SPECIFIED)
def test_every_value_has_a_source_and_nothing_else_has(slug):
    spec = spec_of(slug)
    assert (spec.slug, type(spec)) == (slug, GpuSpec)
    assert set(spec.sources) == VALUES
    assert all(len(source) > 20 for source in spec.sources.values())
    assert {field.name for field in fields(spec)} - {"slug", "name", "sources"} == VALUES


@pytest.mark.parametrize(("slug", "operations"), [("a100", 2048), ("h100", 4096), ("h200", 4096), ("b200", 8192)])
def test_tensor_cores_are_rated_at_a_clock_below_the_highest(slug, operations):
    spec = spec_of(slug)
    assert spec.sms * operations * spec.tensor_mhz / 1e6 == pytest.approx(spec.peak_tflops["bf16"], rel=0.001)
    assert spec.most_tflops("bf16") == pytest.approx(spec.sms * operations * spec.boost_mhz / 1e6, rel=0.001)
    assert spec.most_tflops("fp32") == spec.peak_tflops["fp32"]
