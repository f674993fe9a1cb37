"""Opens and closes entries of a ledger, and keeps a run that closes them."""

import json
import shutil

import pytest
from committed import RESULTS

from gdnbench.catalog.catalog import load_catalog

RUN = "20261124-041446-h200-decode-v10"
LATER = "2099-01-01T00:00:00+00:00"
SLOWER = "vs decode-v8 >= 1.02 at B=1"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder to work in, with a folder of runs."""
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep_run(home, *, timestamp=LATER, name=RUN, of=RUN, **sources):
    """A copy of a recorded run: as if it were measured later, and of the kernels as they are now."""
    folder = home / "results" / name
    shutil.copytree(RESULTS / of, folder)
    info = json.loads((folder / "run.json").read_text())
    now = {kernel: load_catalog().entries[kernel].known_source() for kernel in info["sources"]}
    info |= {
        "timestamp": timestamp,
        "run_id": name,
        "sources": now | {k.replace("_", "-"): v for k, v in sources.items()},
    }
    (folder / "run.json").write_text(json.dumps(info))
    return folder


@pytest.fixture
def begin(command_line):
    """Opens an entry; gives it as JSON has it."""

    def call(*expected, kernel="decode-v10", code=0, more=()):
        words = [word for text in expected for word in ("--expect", text)]
        got, out, err = command_line(
            "ledger", "add", "bulk stores leave sooner", "--kernel", kernel, *words, *more, "--json"
        )
        assert got == code, err
        return json.loads(out) if not got else err

    return call


@pytest.fixture
def close(command_line):
    """Closes an entry by a run; gives the entry as JSON has it, or what went wrong."""

    def call(number=1, run=RUN, code=0, more=()):
        got, out, err = command_line("ledger", "close", number, *([run] if run else []), *more, "--json")
        assert got == code, err
        return json.loads(out) if not got else err

    return call


@pytest.fixture
def draft(home, command_line, monkeypatch):
    """A kernel of one's own, and its source."""
    assert command_line("new", "decode-mine", "--from", "decode-v4", "--to", "kernels")[0] == 0
    monkeypatch.setenv("GDNBENCH_KERNELS", str(home / "kernels"))
    return load_catalog().entries["decode-mine"].source
