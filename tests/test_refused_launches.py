"""A launch that CUDA refuses is refused by every verb that looks at it, without a GPU; a good one by none."""

import json

import pytest
from refused_launches import KERNELS, write_kernels

from gdnbench.errors import ExitCode
from gdnbench.model.status import Status

SHOWN = {name: kernel for name, kernel in KERNELS.items() if kernel.told or name in {"good-cluster", "good-triton"}}
FEW = {name: KERNELS[name] for name in ("grid-y", "bounds-macro", "cluster-part", "triton-warps", "good-cluster")}


@pytest.fixture(scope="module")
def root(same_root):
    write_kernels(same_root)
    return same_root


@pytest.fixture
def ask(command_line, monkeypatch, root):
    """Runs a verb with --json; gives the exit code and the document."""
    monkeypatch.setenv("GDNBENCH_KERNELS", str(root))
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: ())

    def call(*words):
        code, out, err = command_line(*words, "--json")
        assert out, err
        return code, json.loads(out)

    return call


@pytest.mark.parametrize(
    ("words", "kernels"),
    [
        (("verify", "--gpu", "cpu"), KERNELS),
        (("inspect", "--arch", "sm_90"), FEW),
        (("inspect", "--arch", "sm_90"), SHOWN),
    ],
)
def test_a_verb_refuses_it_and_says_why(ask, words, kernels):
    code, document = ask(*words, *(f"twice-{name}" for name in kernels), "--shape", "M=4")
    assert code == ExitCode.PARTIAL
    rows = document["gates"] if words[0] == "verify" else document
    for name, kernel in kernels.items():
        own = [row for row in rows if row["label"] == f"twice-{name}"]
        expected = Status.FAILED if kernel.told else Status.OK
        assert {row["status"] for row in own} == {expected}, own
        assert all(kernel.told in row["reason"] for row in own), own


@pytest.mark.parametrize("name", ["bounds-macro", "triton-grid", "good-either"])
def test_ready_counts_it_as_a_failed_build(ask, tmp_path, name):
    _, document = ask("verify", "--ready", f"twice-{name}", "--out", tmp_path)
    build = next(check for check in document["checks"] if check["name"] == "build")
    told = KERNELS[name].told
    assert build["status"] == ("failed" if told else "passed")
    assert told in json.dumps(build)
