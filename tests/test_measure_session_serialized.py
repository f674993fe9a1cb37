"""A run of kernels whose warpgroup products ptxas serializes, or does not, on a GPU whose workers are simulated."""

from pathlib import Path

import pytest
from session_data import HealthyWorkers, begin

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.store.measurements import read_measurements
from gdnbench.store.tables import read_builds

pytestmark = pytest.mark.slow

CATALOG = load_catalog([default_roots()[0], Path(__file__).parent / "data" / "binary" / "kernels"])
SERIALIZED, SOUND = "test-warpgroup:TOUCHED=1", "test-warpgroup:PRODUCTS=1"
WHY = "insufficient register resources for the wgmma pipeline"
NOTE = f"ptxas serializes the wgmma: {WHY}"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The folder of a run of both kernels, the decode reference beside them."""
    HealthyWorkers().employ(monkeypatch)
    return begin(tmp_path, f"{SERIALIZED},{SOUND}", catalog=CATALOG, rounds=4).run().path


def test_the_note_stands_beside_the_kernels_time_and_the_reason_with_its_build(run, command_line):
    noted = {row.case.label: NOTE in row.warnings for row in read_measurements(run)}
    assert noted.pop(SERIALIZED)
    assert SOUND in noted
    assert not any(noted.values())
    reasons = {row.label: row.serialized_because for row in read_builds(run)}
    assert (reasons[SERIALIZED], reasons[SOUND]) == (WHY, "")
    code, out, _ = command_line("show", str(run))
    assert code == 0
    assert f"{SERIALIZED}: {NOTE}" in " ".join(out.split())
    assert out.count("ptxas serializes") == 1
