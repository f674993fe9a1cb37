"""Folders that do not load and sources that do not compile: each is listed with its reason and stops nothing."""

import json

import pytest
from faults import ADVERSARIAL, CPU, SHORT, Gdnbench

SOURCES = ADVERSARIAL / "broken" / "decode"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Gdnbench(tmp_path_factory.mktemp("broken"), (ADVERSARIAL / "broken",), in_process=True)


@pytest.fixture(scope="module")
def listed(bench):
    done = bench("list", "--json")
    assert done.code == 0
    return {kernel["kernel"]: kernel for kernel in json.loads(done.out)}


@pytest.fixture(scope="module")
def run(bench):
    broken = "cuda-syntax-error triton-import-error missing-extra missing-submodule"
    kernels = ("decode-v4", *(f"test-{each}" for each in broken.split()), "test-talking-declaration")
    return bench.run(",".join(kernels), *CPU, *SHORT, "-q")


@pytest.mark.parametrize(("name", "extra"), [("test-missing-extra", "flashinfer"), ("test-missing-submodule", "fla")])
def test_a_missing_module_is_listed_with_the_line_that_mends_it(listed, name, extra):
    assert listed[name]["status"] == "missing"
    assert listed[name]["reason"].endswith(f"pip install 'gdnbench[{extra}]'")


def test_a_broken_kernel_asked_for_by_name_says_why(bench):
    done = bench.run("decode-bad-default", *CPU, "-q")
    assert done.code == 6
    assert "could not be loaded: variant.py:5: default 12 is not among the choices (8, 16)" in done.err
    assert str(SOURCES / "bad_default") in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test-cuda-syntax-error", f'{SOURCES}/cuda_syntax_error/kernel.cu:6: error: expected a ";"'),
        ("test-triton-import-error", f"{SOURCES}/triton_import_error/kernel.py:3: ModuleNotFoundError"),
    ],
)
def test_a_source_that_does_not_compile_has_the_compilers_message_with_file_and_line(run, name, reason):
    row = run.rows[name]
    assert row["status"] == "build-failed"
    assert row["reason"].startswith(reason)


@pytest.mark.slow
def test_the_healthy_kernels_run_all_the_same(run):
    assert run.code == 6
    for label in ("decode-reference", "test-talking-declaration"):
        assert run.rows[label]["time_us"] > 0
    assert run.rows["decode-v4"]["status"] == "unsupported"
    built = [build for build in run.document["builds"] if build["label"] == "decode-v4"]
    assert [(build["arch"], build["status"]) for build in built] == [("sm_90", "ok"), ("sm_100", "ok")]
