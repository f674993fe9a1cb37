import pytest

from gdnbench.model.gpu import gpu_slug

SLUGS = {
    "NVIDIA H200": "h200",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb": "h100",
    "NVIDIA H20": "h20",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA GB200": "gb200",
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
