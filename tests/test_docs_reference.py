"""The page of codes, variables, folders and columns says what the code has, no more and no less."""

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from gdnbench.analyse.sources import PUBLISHED_COLUMNS as PUBLISHED
from gdnbench.errors import ExitCode
from gdnbench.store import measurements, samples
from gdnbench.store.files import field_names
from gdnbench.store.info import RunInfo
from gdnbench.store.tables import BuildRow, read_sweep

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reference.md").read_text()


def section(heading):
    return PAGE.partition(f"{heading}\n")[2].partition("\n## ")[0]


def paragraph(name):
    return next(part for part in PAGE.split("\n\n") if part.startswith(f"**`{name}"))


def quoted(text):
    return re.findall(r"`([A-Za-z_0-9]+)`", text)


def test_every_exit_code_is_there_with_its_meaning():
    rows = dict(re.findall(r"^\| (\d+) \| (.*?) \|$", section("## Exit codes"), re.MULTILINE))
    assert [int(code) for code in rows] == [code.value for code in ExitCode]
    for code in ExitCode:
        assert rows[str(code.value)].startswith(code.meaning)


def test_every_variable_of_ours_is_there():
    command = ["grep", "-rhoE", r"\bGDNBENCH_[A-Z_]+\b", "--include=*.py", "gdnbench"]
    found = set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    ours = {name for name in found if not name.startswith("GDNBENCH_PHASE")}  # those are macros
    assert ours == {name for name in quoted(section("## Environment variables")) if name.startswith("GDNBENCH_")}


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("rounds.csv", field_names(samples.RoundRow)),
        ("builds.csv", field_names(BuildRow)),
        ("results/published", PUBLISHED),
        ("samples.parquet", ("case", "round", "time_us", "sm_mhz", "placement", "output_placement")),
    ],
)
def test_every_column_of_a_small_file_is_there(name, columns):
    told = [word for word in quoted(paragraph(name)) if word not in {"samples"} or name == "rounds.csv"]
    assert set(told) == set(columns)


def test_every_column_of_the_measurements_is_there():
    table = PAGE.partition("**`measurements.csv`**")[2].partition("\n**")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ")][1:]
    told = [name for cell in cells for name in quoted(cell) if "before" not in cell]
    columns = [*measurements._BEFORE_PARAMS, *measurements._AFTER_PARAMS, *measurements._SINCE_2]
    assert sorted(told) == sorted(columns)


def test_every_field_of_a_run_is_there():
    assert {field.name for field in fields(RunInfo)} <= set(quoted(paragraph("run.json")))


def test_every_part_of_a_sweep_is_there():
    from committed import RESULTS

    sweep = read_sweep(RESULTS / "20261121-180525-h200-decode-sweep-bv")
    assert set(quoted(paragraph("sweep.json"))) == sweep.to_dict().keys()
