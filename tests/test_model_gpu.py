import pytest

from gdnbench.model.gpu import gpu_slug

SLUGS = {
    "NVIDIA H200": "h200",
    "NVIDIA H200 NVL": "h200",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb": "h100",
    "NVIDIA H20": "h20",
    "NVIDIA H800": "h800",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB10": "gb10",
    "NVIDIA A100-SXM4-80GB": "a100",
    "NVIDIA A100 80GB PCIe": "a100",
    "A100-PCIE-40GB": "a100",
    "NVIDIA A10G": "a10g",
    "NVIDIA A40": "a40",
    "NVIDIA L4": "l4",
    "NVIDIA L40S": "l40s",
    "Tesla T4": "t4",
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla V100S-PCIE-32GB": "v100s",
    "Tesla P100-PCIE-16GB": "p100",
    "Tesla K80": "k80",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx3090ti",
    "GeForce RTX 2080 Ti": "rtx2080ti",
    "NVIDIA GeForce RTX 4080 SUPER": "rtx4080super",
    "NVIDIA GeForce RTX 4070 Ti": "rtx4070ti",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx4070tisuper",
    "NVIDIA GeForce RTX 5090": "rtx5090",
    "NVIDIA GeForce GTX 1080 Ti": "gtx1080ti",
    "NVIDIA GeForce GTX 1660 SUPER": "gtx1660super",
    "NVIDIA RTX A6000": "rtxa6000",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtxpro6000",
    "Quadro P5000": "p5000",
    "NVIDIA T1000 8GB": "t1000",
    "NVIDIA TITAN V": "titanv",
    "NVIDIA TITAN RTX": "titanrtx",
    "NVIDIA Thor": "thor",
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
