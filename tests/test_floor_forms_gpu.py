"""On a GPU the form that the trial chooses is the fastest, as a whole run of all forms says."""

import shutil

import pytest
from decode_workloads import decode_at
from faults import REPOSITORY, Gdnbench

from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

NAME = "decode-floor-mine"
FORMS = {"": (1, 0), ":ROWS=2": (2, 0), ":BULK=1": (1, 1), ":ROWS=2:BULK=1": (2, 1)}
BATCHES = (1, 2, 8, 32, 100, 256)
WITHIN = 1.015  # the trial keeps the declared form where another is up to 1 % faster, and is shorter than a run


@pytest.fixture(scope="module", params=FORMS.values(), ids=FORMS)
def folder(request, tmp_path_factory):
    """A run of the copying floor beside each of its forms by name; every form in turn is declared everywhere."""
    home = tmp_path_factory.mktemp("forms")
    mine = home / "kernels" / "decode" / "floor_mine"
    shutil.copytree(REPOSITORY / "kernels" / "decode" / "floor_copy", mine)
    variant = mine / "variant.py"
    text = variant.read_text().replace("decode-floor-copy", NAME)
    begin, end = text.index("    by_shape={"), text.index("    grid=")
    rows, bulk = request.param
    everywhere = dict.fromkeys(BATCHES, request.param)
    far_away = {10**6 + place: form for place, form in enumerate(FORMS.values())}  # declared nowhere else
    lines = [
        f"        Shape(B={batch}): {{'ROWS': {form[0]}, 'BULK': {form[1]}}},\n"
        for batch, form in {**everywhere, **far_away}.items()
    ]
    variant.write_text(f"{text[:begin]}    by_shape={{\n{''.join(lines)}    }},\n{text[end:]}")
    bench = Gdnbench(home, (home / "kernels",), takes_turns=True)
    kernels = ",".join([NAME, *(f"{NAME}:ROWS={rows}:BULK={bulk}" for rows, bulk in FORMS.values())])
    shape = f"B={','.join(map(str, BATCHES))}"
    done = bench.run(
        *(kernels, "--gpu", "auto", "--baseline", "decode-v4", "--shape", shape, "--rounds", "9"),
        *("--margin", "0.9", "--timer", "nvbench", "-q"),
    )
    assert done.code == 0, done.err
    return bench.only_run(), (rows, bulk)


@pytest.mark.parametrize("batch", BATCHES)
def test_the_floor_is_as_fast_as_the_fastest_of_its_forms(folder, batch):
    path, declared = folder
    rows = {row.case.label: row for row in read_measurements(path) if row.case.workload == decode_at(B=batch)}
    own = rows[NAME]
    forms = {label: row for label, row in rows.items() if label.startswith(f"{NAME}:")}
    assert len(forms) == len(FORMS)
    times = {label: row.timing.time_us for label, row in forms.items()}
    fastest = min(times.values())
    chosen = own.case.variant.params
    told = f"declared {declared}, chosen {chosen}, {own.timing.time_us:.3f} µs, forms {times}"
    assert own.timing.time_us < WITHIN * fastest, told
    assert times[f"{NAME}:ROWS={chosen['ROWS']}:BULK={chosen['BULK']}"] < WITHIN * fastest, told


def test_the_form_stands_in_run_json(folder):
    path, _ = folder
    rows = {
        row.case.workload.B: dict(row.case.variant.params) for row in read_measurements(path) if row.case.label == NAME
    }
    cases = {case["shape"]["B"]: case["params"] for case in read_info(path).cases if case["label"] == NAME}
    assert cases == rows
