"""Whether what is stored is of the code as it is now: told by every verb that shows it beside the catalog."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decode_workloads import decode_at
from dispatch_data import write_dispatcher
from ncu_data import fake_ncu, unpack_report
from proton_data import recording
from proton_data import store as store_recording
from run_data import case, measured, store
from stamps_data import about, stamps

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.new import make_kernel
from gdnbench.errors import ExitCode
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import Completed
from gdnbench.profile.ncu.store import read_profiles
from gdnbench.profile.recording import read_recording

H200 = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0), 132, 60 << 20, 140 << 30)
CHANGED = "of other code: decode-mine's sources have changed since"


@pytest.fixture
def with_gpu(monkeypatch):
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: (H200,))


def stored_profile(mine):
    return mine.profiled(2), ("ncu", "--import")


def stored_stamps(mine):
    path = mine.home / "a.npz"
    replace(stamps(launches=3, warps=5), about=about(label="decode-mine:WARPS=4", source=mine.source())).write(path)
    return path, ("proton", "--import")


def _case(mine):
    case = recording().case
    return replace(case, variant=replace(case.variant, label="decode-mine:WARPS=4", kernel="decode-mine"))


def stored_recording(mine):
    return store_recording(mine.home, case=_case(mine), source=mine.source()), ("proton", "--import")


KINDS = [stored_profile, stored_stamps, stored_recording]


@pytest.mark.parametrize("make", KINDS)
def test_an_import_tells_whether_it_is_of_the_code_as_it_is_now(command_line, mine, make):
    path, verb = make(mine)

    def shown():
        """Text, code and source as JSON has them, and as CSV has them where the verb has CSV."""
        code, text, _ = command_line(*verb, path)
        documents = [json.loads(command_line(*verb, path, "--json")[1])]
        assert code == ExitCode.OK
        if verb[0] == "ncu":
            documents.append(next(csv.DictReader(io.StringIO(command_line(*verb, path, "--csv")[1]))))
        firsts = [each[0] if isinstance(each, list) else each for each in documents]
        return text, {(each["code"], each["source"]) for each in firsts}

    text, told = shown()
    assert "other code" not in text
    source = mine.source()
    assert told == {("current", source)}
    mine.change()
    text, told = shown()
    assert text.count(CHANGED) == 1
    assert told == {("changed", source)}


def test_of_a_dispatcher_the_code_is_that_of_what_it_picks(command_line, mine, with_gpu, tmp_path):
    """The profile goes by the name of the kernel that was picked, so that another table does not make it another's."""
    ncu = fake_ncu(tmp_path, f'cp "{unpack_report(tmp_path)}" "$report"')
    code, _, err = command_line("ncu", "decode-auto", "--ncu", ncu, "--profiles", mine.profiles)
    assert code == ExitCode.OK, err
    [table] = (mine.profiles / "ncu").glob("*/*.csv")
    pick = mine.catalog.entries["decode-auto"].dispatch.pick(decode_at(), "h200")
    [profile, *_] = read_profiles(table)
    assert profile.label.partition(":")[0] == pick.kernel
    assert profile.source == mine.source(pick.kernel)


def test_phases_and_proton_hand_the_code_to_the_worker_that_writes_it(command_line, mine, monkeypatch, with_gpu):
    told = []

    def worker(task, gpu, *, limit_s):
        told.append(task)
        if task.result.endswith(".npz"):
            made = about(label=task.case.label, source=task.source)
            replace(stamps(launches=5), about=made).write(Path(task.result))
        else:
            changes = {"trace": "", "sm_mhz": (), "launches": 0, "times_us": {"plain": [5.0]}}
            recording(case=task.case, source=task.source, **changes).write(Path(task.result))
        return Completed(0, "")

    monkeypatch.setattr("gdnbench.profile.collect.run_worker", worker)
    code, out, err = command_line("proton", "decode-mine", "--profiles", mine.profiles, "--json")
    assert code == ExitCode.OK, err
    assert json.loads(out)[0]["code"] == "current"
    [path] = (mine.profiles / "phases" / "decode-mine").glob("*.npz")
    with np.load(path) as kept:
        assert json.loads(str(kept["about"]))["source"] == mine.source()
    code, out, err = command_line("proton", "decode-triton", "--profiles", mine.profiles, "--json")
    assert code == ExitCode.OK, err
    [path] = (mine.profiles / "proton" / "decode-triton").glob("*.json")
    assert read_recording(path).source == mine.source("decode-triton") == told[1].source


TABLE = """
[h200.qk4_v8]
source = "20260103-030405-h200-decode"
B1 = {{ kernel = "decode-v4", WARPS = 2 }}
B8 = {{ kernel = "{other}" }}
"""


@pytest.fixture
def listed(command_line, mine, monkeypatch, tmp_path):
    """Lists the kernels and a dispatcher that picks decode-v4, and decode-own, a copy of it."""
    root = tmp_path / "more"
    make_kernel("decode-own", "decode-v4", root)
    write_dispatcher(root, TABLE.format(other="decode-own"))
    monkeypatch.setenv("GDNBENCH_KERNELS", str(root))

    def show(*form, left_out=""):
        code, out, err = command_line("list", "--out", mine.results, *form)
        assert code == ExitCode.OK
        assert left_out in err if left_out else not err
        return out

    show.root = root
    return show


def picks(listed, **more):
    [document] = [each for each in json.loads(listed("--json", **more)) if each["kernel"] == "decode-mine"]
    return [(row["kernel"], row["code"]) for row in document["dispatch"]]


def test_a_dispatchers_rows_tell_whether_the_picked_kernel_is_still_what_the_run_timed(listed, mine):
    assert picks(listed) == [("decode-v4", "unknown"), ("decode-own", "unknown")]  # the run is not here
    assert "changed" not in listed()
    own = load_catalog([*default_roots(), listed.root]).entries["decode-own"]
    now = {"decode-v4": mine.source("decode-v4"), "decode-own": own.source_hash()}
    write_run(mine, now)
    assert picks(listed) == [("decode-v4", "current"), ("decode-own", "current")]
    assert "changed" not in listed()
    path = listed.root / "decode" / "own" / "kernel.cu"
    path.write_text(path.read_text() + "// a line more\n")
    assert picks(listed) == [("decode-v4", "current"), ("decode-own", "changed")]
    told = " ".join(listed("decode-mine").split())
    assert "of other code: decode-own changed since the runs that the table names" in told
    assert max(map(len, listed("decode-mine").splitlines())) <= 80
    rows = {row["kernel"]: row for row in csv.DictReader(io.StringIO(listed("--csv")))}
    assert [row["code"] for row in json.loads(rows["decode-mine"]["dispatch"])] == ["current", "changed"]


def write_run(mine, sources):
    folder = mine.results / "20260103-030405-h200-decode"
    folder.mkdir()
    store(folder, [measured(case("decode-v4", WARPS=2), 4.6)], run_id=folder.name, sources=sources)
    return folder
