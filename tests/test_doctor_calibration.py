"""What the doctor says of the last calibration, and what a run keeps of it."""

import pytest
from calibration_data import H200, calibration, equal
from run_data import case, measured, store

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.request import make_request
from gdnbench.doctor.checks import Level, check_calibration
from gdnbench.machine.provenance import host_name
from gdnbench.measure.plan import make_plan
from gdnbench.measure.start import begin_session
from gdnbench.process.events import ignore
from gdnbench.render.view import TableView, viewed
from gdnbench.store.calibration import calibration_path, write_calibration
from gdnbench.store.info import read_info
from gdnbench.store.settings import Settings
from gdnbench.verbs.run_tables import print_run

DRIVER = calibration().driver


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def keep(**more):
    write_calibration(calibration_path("rack-1", "h200"), calibration(**more))


def check(driver=DRIVER):
    return check_calibration("rack-1", H200, driver)


def test_without_one_it_says_how_to_make_one():
    assert check().level is Level.OK
    assert check().remedy == "gdnbench doctor --calibrate --gpu h200"


def test_it_tells_date_false_claims_and_the_smallest_slowdown():
    keep()
    assert check().level is Level.OK
    assert not check().remedy
    assert check().finding.startswith("2026-11-22: 1 of 48 equal kernels")
    assert "a slowdown of 1.1% found in 95%" in check().finding


def test_one_of_another_driver_is_to_be_made_anew():
    keep()
    assert f"with driver {DRIVER}" in check("590.1").finding
    assert check("590.1").remedy == "gdnbench doctor --calibrate --gpu h200"


@pytest.mark.parametrize(("claims", "level"), [(8, Level.OK), (24, Level.WARN)])
def test_more_false_claims_than_chance_explains_are_a_warning(claims, level):
    keep(equal=[equal(comparisons=72, claims=claims)])
    assert check().level is level


def test_one_that_cannot_be_read_is_a_warning():
    path = calibration_path("rack-1", "h200")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert (check().level, check().remedy) == (Level.WARN, "gdnbench doctor --calibrate --gpu h200")
    assert str(path) in check().finding


def begin(tmp_path, gpu):
    catalog = load_catalog()
    request = make_request(catalog, "decode", "decode-v4", axes="B=1", settings=Settings())
    return begin_session(catalog, make_plan(catalog, request, gpu), tmp_path, ignore)


@pytest.mark.parametrize(("gpu", "kept"), [(H200, True), (None, False)])
def test_a_run_keeps_the_calibration_of_its_gpu(tmp_path, gpu, kept):
    write_calibration(calibration_path(host_name(), "h200"), calibration())
    session = begin(tmp_path, gpu)
    assert session.info.calibration == (calibration().summary if kept else None)
    assert read_info(session.folder.path).calibration == session.info.calibration


def test_a_calibration_that_cannot_be_read_stops_no_run(tmp_path):
    path = calibration_path(host_name(), "h200")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert begin(tmp_path, H200).info.calibration is None


def shown(folder, capsys, monkeypatch, **more):
    monkeypatch.setenv("COLUMNS", "120")
    store(folder, [measured(case("decode-v4"))], **more)
    with viewed(TableView(legend=True)):
        print_run(folder, json=False, csv=False)
    return capsys.readouterr().out


def test_a_table_names_the_calibration_of_the_time_and_no_later_one(tmp_path, capsys, monkeypatch):
    keep(timestamp="2027-01-01T00:00:00+00:00")
    write_calibration(calibration_path(host_name(), "h200"), calibration(timestamp="2027-01-01T00:00:00+00:00"))
    text = shown(tmp_path, capsys, monkeypatch, calibration=calibration().summary)
    lines = [line for line in text.splitlines() if "alibrated" in line]
    told = "2026-11-22: 1 of 48 equal kernels called FASTER or SLOWER, a slowdown of 1.1% found in 95%"
    assert lines == [f"Calibrated {told}."]
