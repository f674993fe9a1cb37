"""The sources that an entry of the ledger kept come back, and nothing is written over without being asked for."""

import json
import shutil
from pathlib import Path

import pytest
from ledger_data import SLOWER

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode
from gdnbench.ledger.file import pack

pytest_plugins = ["ledger_data"]

RESTORED = Path("restored-1/decode")


def test_the_sources_of_an_entry_are_written_back_beside_or_in_place(draft, begin, close, command_line):
    begin("spills = 0", kernel="decode-mine")
    first = draft.read_text()
    second = first + "// measured\n"
    draft.write_text(second)
    close(run="")
    draft.write_text("// later\n")
    extra = draft.with_name("notes.txt")
    extra.write_text("mine")
    assert command_line("ledger", "restore", "1")[0] == 0
    (kept,) = RESTORED.glob("*/kernel.cu")
    assert kept.read_text() == second
    assert (RESTORED / "gdn.cuh").is_file()
    code, _, err = command_line("ledger", "restore", "1")
    assert code == ExitCode.USAGE
    assert "exists" in err
    assert command_line("ledger", "restore", "1", "--opened", "--to", "elsewhere")[0] == 0
    assert next(Path("elsewhere/decode").glob("*/kernel.cu")).read_text() == first
    assert draft.read_text() == "// later\n"
    code, out, err = command_line("ledger", "restore", "1", "--force", "--json")
    assert code == 0, err
    assert json.loads(out)["files"] == ["kernel.cu"]
    assert draft.read_text() == second
    assert (extra.read_text(), "notes.txt is not of the entry" in " ".join(err.split())) == ("mine", True)
    assert "every file is as it was" in command_line("ledger", "restore", "1", "--force")[1]


def test_a_draft_that_is_gone_loads_again_from_the_ledger(home, draft, begin, command_line, monkeypatch):
    begin("spills = 0", kernel="decode-mine")
    hashed = load_catalog().entries["decode-mine"].known_source()
    shutil.rmtree(home / "kernels")
    assert "not there any more" in command_line("ledger", "restore", "1", "--force")[2]
    assert command_line("ledger", "restore", "1")[0] == 0
    monkeypatch.setenv("GDNBENCH_KERNELS", str(Path("restored-1").resolve()))
    assert load_catalog().entries["decode-mine"].known_source() == hashed


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a\\evil"])
def test_a_name_that_leads_out_of_the_folder_writes_nothing(home, begin, command_line, name):
    begin(SLOWER)
    path = home / "ledger.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"sources": pack({name: "x", "v10/kernel.cu": "y"})}) + "\n")
    for more in ([], ["--force"]):
        code, _, err = command_line("ledger", "restore", "1", *more)
        assert code == ExitCode.USAGE
        assert "not a file's name" in err
    assert not (home / "restored-1").exists()
    assert not list(home.parent.rglob("evil"))
