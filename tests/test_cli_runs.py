"""`gdnbench runs`: what is stored."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from run_data import case, failed, info, measured, store

from gdnbench.model.status import Role
from gdnbench.store.files import RunFolder
from gdnbench.store.info import write_info

NOW = datetime.now(UTC)
ROWS = [measured(case("decode-fla", Role.BASELINE)), measured(case("decode-v4")), failed(case("decode-x"))]


def add(results, days, gpu="h200", label="", rows=ROWS, **more):
    began = NOW - timedelta(days=days)
    run_id = f"{began:%Y%m%d-%H%M%S}-{gpu}-decode" + (f"-{label}" if label else "")
    folder = results / run_id
    folder.mkdir(parents=True)
    store(folder, rows, run_id=run_id, gpu=gpu, label=label, timestamp=began.isoformat(), **more)
    return folder


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


@pytest.fixture
def run(command_line, results):
    return lambda *words: command_line("runs", *words)


def hide(results, **more):
    """A run that was stopped."""
    folder = results / ".20260105-030405-h200-decode.partial"
    folder.mkdir()
    write_info(folder, info(run_id="20260105-030405-h200-decode", complete=False, **more))


def test_the_newest_is_first(run, results):
    ids = [add(results, day).name for day in (2, 1, 3)]
    told = [line.split()[0] for line in run()[1].splitlines() if line.startswith("2026")]
    assert told == sorted(ids, reverse=True)


def test_runs_that_were_stopped_or_damaged_are_told(run, results):
    folder = RunFolder.create(results, "20260105-030405-h200-decode-stopped")
    write_info(folder.path, info(run_id=folder.run_id, complete=False))
    damaged = add(results, 1)
    (damaged / "run.json").write_text("{")
    _, out, _ = run()
    assert "measuring" in out  # this very process holds it
    os.close(os.open(folder.path, os.O_RDONLY))
    assert f"damaged  {damaged.name}: " in out.replace("\n", " ")


@pytest.mark.parametrize("is_here", [True, False])
def test_a_run_that_was_stopped_is_to_be_finished_where_its_card_is(run, results, is_here):
    whole = add(results, 1)
    hide(results, **({} if is_here else {"machine": {"gpu": {"name": "NVIDIA H200", "uuid": "GPU-elsewhere"}}}))
    _, out, _ = run()
    assert "stopped" in out
    wanted = "run --resume 20260105-030405-h200-decode" if is_here else f"show {whole.name}"
    assert out.splitlines()[-1] == f"next: gdnbench {wanted}"


def test_an_empty_folder_says_how_to_get_a_run(run):
    _, out, _ = run("--out", "elsewhere")
    assert out.splitlines() == ["no runs in elsewhere", "next: gdnbench run --kernel all --out elsewhere"]
