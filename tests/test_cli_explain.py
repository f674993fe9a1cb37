"""`gdnbench explain` as a user meets it."""

from functools import partial

import pytest
from diagnose_data import SPECIMENS, copy_run, recording


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    """Runs `gdnbench explain ARGUMENTS` in this process, without a GPU; no profiles are stored."""
    monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(SPECIMENS))
    copy_run(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "explain")


@pytest.mark.parametrize("arguments", [[], ["--from", recording("decode-v1-B1")]])
def test_what_is_next_goes_on_with_the_same_folders(run, tmp_path, arguments):
    folders = ["--out", tmp_path / "elsewhere", "--profiles", tmp_path / "counters"]
    _, out, _ = run("decode-v1", *folders, *arguments)
    places = {"run": f"--out {tmp_path / 'elsewhere'}", "ncu": f"--profiles {tmp_path / 'counters'}"}
    lines = [line for line in out.splitlines() if line.lstrip().startswith(("next: ", "try: "))]
    for line in lines:
        verb = line.split()[2]
        assert places.get(verb, "") in line
    assert any(place in out for place in places.values())
