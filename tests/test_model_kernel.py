"""Kernels, cases and GPUs: what each says of itself, and what is refused."""

import json
import re
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from run_data import measured, store

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import parse_workload
from gdnbench.errors import DeclarationError
from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Param, Params
from gdnbench.model.gpu import gpu_slug
from gdnbench.model.kernel import TorchKernel, TritonKernel
from gdnbench.model.status import Role
from gdnbench.model.workload import Shape
from gdnbench.store.schema import DECODE_AXES

PARAMS = {"BV": Param(default=8, choices=(8, 16)), "MODE": Param(default="fast", choices=("fast", "exact"))}

B8 = Shape(B=8)
DECODE = CATALOG.ops["decode"]


def _kernel(**more):
    return TorchKernel(name="decode-x", params=PARAMS, **more)


def test_unnamed_params_take_their_defaults():
    assert _kernel().resolve({}) == Params({"BV": 8, "MODE": "fast"})
    assert _kernel().resolve({"BV": "16"}) == Params({"BV": 16, "MODE": "fast"})


@pytest.mark.parametrize("arch", ["sm_100", "sm_100a", "sm_120"])
def test_a_triton_kernel_may_need_an_architectures_instructions(arch):
    kernel = TritonKernel(name="t", entry="f", grid=lambda s, p: (1,), since="sm_100")
    assert kernel.fits(arch)
    assert not kernel.fits("sm_90")
    assert TritonKernel(name="t", entry="f", grid=lambda s, p: (1,)).fits("sm_90")


def test_what_is_no_architecture_is_refused_when_declared():
    with pytest.raises(DeclarationError, match="since 'hopper' is not an architecture"):
        TritonKernel(name="t", entry="f", grid=lambda s, p: (1,), since="hopper")


def _by_shape(*batches):
    """A kernel with a value of its own for each batch size."""
    choices = (0, *batches)
    by_shape = {Shape(B=batch): {"AT": batch} for batch in batches}
    kernel = TorchKernel(name="decode-x", params={"AT": Param(default=0, choices=choices)}, by_shape=by_shape)
    return CatalogEntry(kernel, DECODE, Path(), Path(), "")


@pytest.mark.parametrize(
    ("batch", "nearest"), [(1, 1), (2, 1), (3, 8), (8, 8), (16, 8), (22, 8), (23, 64), (64, 64), (10**6, 64)]
)
def test_defaults_are_those_of_the_nearest_workload_on_a_logarithmic_scale(batch, nearest):
    assert _by_shape(64, 1, 8).defaults(decode_at(B=batch))["AT"] == nearest


@pytest.mark.parametrize(("one", "middle", "other"), [(1, 2, 4), (16, 24, 36), (9, 15, 25), (49, 77, 121)])
def test_halfway_between_two_workloads_the_smaller_ones_defaults_hold(one, middle, other):
    for batches in ((one, other), (other, one)):
        assert _by_shape(*batches).defaults(decode_at(B=middle))["AT"] == one


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        *(
            ({field: {key: values}}, f"{told}: .*{why}")
            for field, key, told in (("presets", "decode-xb", "preset decode-xb"), ("by_shape", B8, "by_shape .*B=8.*"))
            for values, why in (({"BV": 32}, "BV=32"), ({"WARPS": 4}, "no param WARPS"))
        ),
        ({"by_shape": {8: {"BV": 16}}}, "by_shape 8: not a Shape"),
        ({"by_shape": {"B=8": {"BV": 16}}}, "by_shape 'B=8': not a Shape"),
    ],
)
def test_settings_that_cannot_hold_are_refused_when_declared(declared, why):
    with pytest.raises(DeclarationError, match=why) as caught:
        _kernel(**declared)
    assert caught.value.hint


VARIANTS = (
    Variant("decode-v4", "decode-v4", params=Params({"WARPS": 8})),
    Variant("decode-v4", "decode-v4b", preset="decode-v4b", params=Params({"WARPS": 4})),
    Variant("decode-v4", "decode-v4:WARPS=4", params=Params({"WARPS": 4})),
    Variant("decode-t", "decode-t:MODE=exact", params=Params({"MODE": "exact", "BV": 16})),
    Variant("decode-fla", "decode-fla"),
)
WORKLOADS = (
    decode_at(),
    decode_at(B=11),
    decode_at(HQ=1, HV=1),
    decode_at(B=1, HQ=11, HV=11),
    decode_at(K=64),
    decode_at(V=64),
)


def test_ids_are_unique_within_a_run():
    cases = [Case(variant, workload) for variant, workload in product(VARIANTS, WORKLOADS)]
    cases += [Case(VARIANTS[-1], workload, Role.CONTROL) for workload in WORKLOADS]
    assert len({case.id for case in cases}) == len(cases)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.label)
def test_a_case_survives_json(variant, role):
    case = Case(variant, decode_at(B=3, HQ=2, HV=4, K=64, V=32), role)
    assert Case.from_dict(json.loads(json.dumps(case.to_dict())), DECODE_AXES) == case
    assert Case.from_dict(case.to_dict(), DECODE_AXES).id == case.id


@pytest.mark.parametrize(
    ("kernel", "role", "is_point"),
    [
        ("decode-v4", Role.KERNEL, True),
        ("decode-v4", Role.BASELINE, False),
        ("decode-v4", Role.CONTROL, False),
        ("decode-floor-copy", Role.FLOOR, True),
        ("decode-floor-empty", Role.FLOOR, False),
        ("decode-v1", Role.KERNEL, False),
    ],
)
def test_the_points_of_a_sweep_are_of_its_kernels_and_not_what_stands_beside_them(kernel, role, is_point):
    case = Case(Variant(kernel, f"{kernel}:WARPS=4"), decode_at(), role)
    assert case.is_point_of({"decode-v4": ("WARPS",), "decode-floor-copy": ("WARPS",)}) is is_point


OP = CATALOG.ops["prefill"]
LONG = [each for each in OP.suite("contest").workloads if "n-" in str(each)]


def test_every_label_of_a_suite_is_understood_as_it_is_printed():
    assert LONG
    for workload in LONG:
        lengths = re.search(r"lengths=\S+", str(workload))[0]
        assert parse_workload(OP, f"heads={workload.aliases['heads']} {lengths}", "one") == workload


def _store(folder, workload):
    entry = CATALOG.entries["prefill-triton"]
    variant = Variant("prefill-triton", "prefill-triton", params=Params(dict(entry.default.params)))
    store(folder, [measured(Case(variant, workload), 40.0)], op="prefill", workloads=OP.workloads)


def test_a_run_says_what_a_shortened_label_stands_for(tmp_path, command_line):
    folder = tmp_path / "20260102-030405-h200-prefill"
    folder.mkdir()
    workload = LONG[0]
    _store(folder, workload)
    code, out, err = command_line("show", folder.name, "--legend", "--out", tmp_path)
    assert code == 0, err
    lengths = re.search(r"lengths=\S+", str(workload))[0]
    told = f"{lengths}: {len(workload.lengths)} lengths, {sum(workload.lengths):,} in all, and a hash of them;"
    assert told in " ".join(out.split())
    cells = "+".join(str(each) for each in workload.lengths[:2])
    assert cells in (folder / "measurements.csv").read_text()


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
