"""`gdnbench lint` as a user meets it."""

import json
import os
import re
from functools import partial

import pytest
from lint_data import SPECIMENS

from gdnbench.errors import ExitCode


@pytest.fixture
def lint(command_line, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(SPECIMENS))
    return partial(command_line, "lint")


def test_the_bundled_kernels_of_an_op_have_no_findings(lint):
    code, out, _ = lint("--op", "decode")
    assert code == ExitCode.OK, out
    assert re.match(r"\d\d kernels, \d files: no findings; \d\d not in Triton\n", out)


@pytest.mark.parametrize("words", [[], ["all"]])
def test_the_kernels_of_every_op_are_meant_where_none_is_named(lint, words):
    _, out, _ = lint(*words, "--json")
    found = json.loads(out)["kernels"]
    assert {"decode-v9", "prefill-v4", "nvfp4-gemv-v2", "lint-t10-good"} <= set(found)


def test_a_finding_has_its_place_and_what_to_do(lint):
    code, out, _ = lint("lint-*", "--json")
    (found,) = json.loads(out)["findings"]
    assert code == ExitCode.REGRESSION
    assert (found["code"], found["line"], found["kernel"]) == ("T10", 12, "lint-t10-bad")


def test_a_name_of_no_kernel_is_refused(lint):
    code, out, err = lint("lint-nonsense")
    assert (code, out) == (ExitCode.USAGE, "")
    assert err


@pytest.mark.parametrize("text", ["def rows(:\n", "\x00", "\udcff"])
def test_a_source_that_cannot_be_read_is_a_failed_build(lint, tmp_path, monkeypatch, text):
    folder = tmp_path / "rows" / "mine"
    folder.mkdir(parents=True)
    (folder / "variant.py").write_text(
        '"""A test\'s."""\nfrom gdnbench import TritonKernel\n'
        'kernel = TritonKernel(name="lint-mine", entry="rows", grid=lambda workload, p: (1,))\n'
    )
    (folder / "kernel.py").write_bytes(text.encode(errors="surrogateescape"))
    monkeypatch.setenv("GDNBENCH_KERNELS", os.pathsep.join([str(SPECIMENS), str(tmp_path)]))
    code, out, err = lint("lint-mine")
    assert (code, out) == (ExitCode.BUILD, "")
    assert "kernel.py" in err.replace("\n", "")


def test_a_dispatcher_stands_for_the_kernels_that_it_picks(lint):
    code, out, _ = lint("decode-auto", "--json")
    assert code == ExitCode.OK
    assert any("v9" in name for name in json.loads(out)["kernels"])
