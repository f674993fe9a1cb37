"""On a GPU: what was exported and imported again is built, verified and timed beside the original."""

import json
import shutil
from importlib.util import find_spec

import pytest
from exchange_data import DECODE
from faults import Gdnbench

from gdnbench.model.status import Status
from gdnbench.store.measurements import read_measurements

pytestmark = pytest.mark.gpu

NEEDS = {"decode-v4": "tvm-ffi", "decode-v9": "torch", "decode-triton": "", "decode-reference": ""}
SHAPES = ("--shape", "B=1,8")


def skip_without(binding):
    if binding and not shutil.which("nvcc"):
        pytest.skip("there is no nvcc")
    if binding == "tvm-ffi" and not find_spec("tvm_ffi"):
        pytest.skip("tvm_ffi is not installed")
    if binding == "torch" and not find_spec("ninja"):
        pytest.skip("ninja is not installed")


@pytest.mark.parametrize(("label", "binding"), NEEDS.items())
def test_an_imported_kernel_is_right_and_timed_beside_the_original(tmp_path, label, binding):
    skip_without(binding)
    bench = Gdnbench(tmp_path, (tmp_path / "kernels",), takes_turns=True)
    words = ("--suite", "contest", "--to", str(tmp_path / "set"))
    done = bench("exchange", "export", label, *words, *(("--binding", binding) if binding else ()))
    assert done.code == 0, done.err
    solution = tmp_path / "set" / "solutions" / "decode" / DECODE / f"{label}.json"
    definition = tmp_path / "set" / "definitions" / "decode" / f"{DECODE}.json"
    options = ("--op", "decode", "--name", "decode-again", "--to", str(tmp_path / "kernels"))
    assert bench("exchange", "import", str(solution), str(definition), *options).code == 0
    limit = ("--step-limit", "120")
    verified = bench("verify", "decode-again", *SHAPES, *limit, "--json")
    gates = json.loads(verified.out)["gates"]
    assert {gate["status"] for gate in gates} == {"ok"}, verified.out
    ran = bench.run(f"{label},decode-again", *SHAPES, *limit, "--rounds", "6", "--samples", "16", "--baseline", label)
    rows = read_measurements(bench.only_run())
    found = {(row.case.label, row.case.workload.B): row for row in rows}
    for batch in (1, 8):
        assert found["decode-again", batch].status is Status.OK, ran.err
        assert found["decode-again", batch].timing.time_us > 0
