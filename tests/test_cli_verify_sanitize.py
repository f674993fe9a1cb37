"""`gdnbench verify --sanitize` as a user meets it; compute-sanitizer is a script."""

import os

import pytest
from decode_workloads import decode_at
from sanitizer_data import fake_sanitizer, said

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import GateResult, Status
from gdnbench.store.journal import Examined
from gdnbench.verify.preflight import Verification

H200 = Gpu(0, "NVIDIA H200", "GPU-0000", (9, 0))
PASSED = GateResult("inputs unchanged", "typical", 0.0, 0.0, "", Status.OK)


@pytest.fixture
def verified(monkeypatch):
    """The verification before the tools: decode-v4 passes at B=1 and B=4. Gives how often it was asked for."""
    asked = []

    def verify_variants(catalog, *_arguments, **_options):
        asked.append(1)
        variant = find_variant(load_catalog(), "decode", "decode-v4")[1]
        cases = tuple(Case(variant, decode_at(B=batch)) for batch in (4, 1))
        return Verification(
            7, H200.name, cases, {case.id: Examined(case.id, Status.OK, gates=(PASSED,)) for case in cases}, {}
        )

    monkeypatch.setattr("gdnbench.verify.preflight.verify_variants", verify_variants)
    return asked


@pytest.fixture
def verify(command_line, monkeypatch, tmp_path, verified):
    """Runs `gdnbench verify decode-v4 --sanitize ARGUMENTS` with this GPU, if any, and a compute-sanitizer, if any."""

    def call(*arguments, gpus=(H200,), installed=True, **reports):
        for place in ("gdnbench.profile.process", "gdnbench.machine.gpus"):
            monkeypatch.setattr(f"{place}.list_gpus", lambda: gpus)
        if installed:
            fake_sanitizer(tmp_path, **reports)
            monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        else:
            monkeypatch.setattr("gdnbench.profile.sanitizer.find_sanitizer", lambda: None)
        return command_line("verify", "decode-v4", "--sanitize", *arguments)

    return call


def words(text):
    return " ".join(text.split())


def test_without_the_program_nothing_is_done(verify, verified):
    code, out, err = verify(installed=False)
    assert (code, out, verified) == (5, "", [])
    assert "compute-sanitizer is neither on the PATH nor in $CUDA_HOME/bin" in words(err)
    assert "it comes with the CUDA toolkit" in words(err)


@pytest.mark.parametrize("installed", [True, False])
def test_without_a_gpu_the_interpreter_is_pointed_to(verify, verified, installed):
    code, out, err = verify(gpus=(), installed=installed)
    assert (code, out, verified) == (5, "", [])
    assert "compute-sanitizer needs a GPU" in words(err)
    assert "interpreter of PTX" in words(err)


def test_a_finding_is_unsafe_in_the_table_and_repeated_by_the_next_line(verify):
    code, out, err = verify(memcheck=said("memcheck", "gdn_decode_v4"))
    assert code == 3, err
    told = words(out)
    assert "compute-sanitizer memcheck 2 of 0 FAIL B=1 typical kernel.cu:25" in told
    assert "unsafe: memcheck: kernel.cu:25: gdn_decode_v4: Invalid __global__ read of size 4 bytes" in told
    assert out.splitlines()[-1] == "next: gdnbench verify decode-v4 --shape B=1 --seed 7 --sanitize"
    assert "unsafe decode-v4 B=1" in words(err)
