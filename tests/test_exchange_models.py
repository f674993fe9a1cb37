"""What gdnbench writes, read by flashinfer-bench's own models, and what they write, read by gdnbench.

flashinfer-bench is no dependency of the tests. Where it is not installed, the golden files stand for it: they are what
its models have read, as `data/exchange/validated.json` records.
"""

import hashlib
import json
import os

import pytest
import torch
from exchange_data import DECODE, GOLDEN, definition, solution, tree

from gdnbench.exchange.schema import parse_definition, parse_solution

RECORD = GOLDEN / "validated.json"


def digests():
    return {name: hashlib.sha256(data).hexdigest() for name, data in tree(GOLDEN / "set").items()}


def test_the_golden_files_are_those_that_were_validated():
    assert json.loads(RECORD.read_text())["sha256"] == digests()


@pytest.fixture(scope="module")
def models():
    return pytest.importorskip("flashinfer_bench.data", reason="flashinfer-bench is not installed")


def test_its_models_read_the_golden_files(models):
    from importlib.metadata import version

    read = models.TraceSet.from_path(str(GOLDEN / "set"))
    assert set(read.definitions) == {DECODE, "gemm_N48_Kd32"}
    assert {each.name for each in read.solutions["gemm_N48_Kd32"]} == {"gemm-cuda", "gemm-triton", "gemm-torch"}
    assert len(read.workloads[DECODE]) == 54
    if os.environ.get("GDNBENCH_REWRITE_GOLDEN"):
        versions = {name: version(name) for name in ("flashinfer-bench", "pydantic")}
        RECORD.write_text(json.dumps({"versions": versions, "sha256": digests()}, indent=2) + "\n")


def test_its_models_write_what_gdnbench_writes(models):
    """Field by field: nothing is missing, and nothing is there that they do not know."""
    for path in (GOLDEN / "set").rglob("*.json*"):
        kind = {"definitions": models.Definition, "solutions": models.Solution}.get(path.relative_to(GOLDEN).parts[1])
        for text in path.read_text().splitlines() if kind is None else [path.read_text()]:
            read = (kind or models.Trace).model_validate_json(text)
            assert json.loads(read.model_dump_json(exclude_unset=True)) == json.loads(text)


def test_gdnbench_reads_what_its_models_write(models, tmp_path):
    from flashinfer_bench.data import save_json_file

    save_json_file(models.Definition(**definition()), tmp_path / "d.json")
    save_json_file(models.Solution(**solution()), tmp_path / "s.json")
    assert parse_definition((tmp_path / "d.json").read_text(), "d").axes["hidden_size"].value == 64
    assert parse_solution((tmp_path / "s.json").read_text(), "s").spec.passes_destinations


def test_its_builder_builds_the_python_solution_and_its_numbers_are_the_references(models, tmp_path, monkeypatch):
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path))
    from flashinfer_bench.bench.utils import gen_inputs
    from flashinfer_bench.compile.builders.python_builder import PythonBuilder

    read = models.TraceSet.from_path(str(GOLDEN / "set"))
    stated, given = read.definitions[DECODE], next(s for s in read.solutions[DECODE] if s.name == "decode-reference")
    runnable = PythonBuilder().build(stated, given)
    workload = read.workloads[DECODE][0].workload
    torch.manual_seed(1)
    inputs = gen_inputs(stated, workload, "cpu")
    scope = {}
    exec(compile(stated.reference, "reference", "exec"), scope)
    for output, wanted in zip(runnable(*inputs), scope["run"](*inputs), strict=True):
        torch.testing.assert_close(output, wanted, rtol=1e-2, atol=1e-2)
        assert output.dtype == wanted.dtype
