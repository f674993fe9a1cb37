"""The page of cheats names every kernel that commits one, with the statuses that its test asks for."""

import math
import re
from pathlib import Path

import pytest
from cheats import HONEST, ON_CPU, ON_GPU, read_table
from faults import ADVERSARIAL

from gdnbench.store.settings import choose_settings
from gdnbench.workers.task import MOST_CHECKED

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "threats.md").read_text()
CAUGHT = PAGE.partition("## What is caught\n")[2].partition("\n## ")[0]
RIGHT = {**ON_CPU, **ON_GPU}


def rows():
    """Kernels as the page names them, by folder or with a param; and the statuses beside them."""
    for line in CAUGHT.splitlines():
        cells = line.strip("| ").split(" | ")
        if len(cells) == 4 and "`" in cells[3]:
            for kernel in re.findall(r"`([^`]+)`", cells[1]):
                yield kernel, set(re.findall(r"`([^`]+)`", cells[3]))


STATUSES = dict(rows())


def _folder(label):
    return label.removeprefix("test-").partition(":")[0].replace("-", "_")


def _of_page(label):
    name, colon, params = label.removeprefix("test-").partition(":")
    folder = name.replace("-", "_")
    return STATUSES.get(folder + colon + params) or STATUSES.get(folder)


@pytest.mark.parametrize("label", RIGHT)
def test_a_cheat_is_on_the_page_with_its_statuses(label):
    assert _of_page(label) == RIGHT[label]


@pytest.mark.parametrize("kernel", STATUSES)
def test_what_the_page_names_is_there(kernel):
    assert any((ADVERSARIAL / part / "decode" / kernel.partition(":")[0]).is_dir() for part in ("both", "cpu", "gpu"))


def test_no_kernel_is_left_out():
    folders = {path.name for path in (ADVERSARIAL / "both" / "decode").iterdir() if (path / "variant.py").is_file()}
    assert folders == {_folder(label) for label in (*RIGHT, *HONEST)} & folders


def test_the_table_of_an_h200_has_every_kernel_with_a_status_that_is_right():
    got = {row["kernel"]: row["status"] for row in read_table(ADVERSARIAL / "h200.csv")}
    assert list(got) == list(ON_GPU)
    assert {label for label, status in got.items() if status not in ON_GPU[label]} == set()


def test_the_chance_that_a_default_run_finds_one_launch_of_fifty_is_that_of_its_checks():
    settings = choose_settings(
        "cuda",
        quick=False,
        rounds=None,
        samples=None,
        processes=None,
        seed=0,
        margin=0.005,
        step_limit_s=30,
        plain=False,
    )
    burn_ins = settings.processes  # CUPTI's rounds follow NVBench's in each process, and have none
    by_nvbench, by_cupti = MOST_CHECKED * (settings.rounds + burn_ins), MOST_CHECKED * settings.clock_rounds
    most, fewest = by_nvbench + by_cupti, 2 * settings.processes * (MOST_CHECKED + 1)
    page = " ".join(PAGE.split())
    assert f"= {by_nvbench} by NVBench and" in page
    assert f"= {by_cupti} by CUPTI" in page
    assert f"n is at least {fewest}," in page
    first, last = (f"{100 * (1 - 0.98**checked):.0f} % with" for checked in (fewest, most))
    assert f"the chance is {first} {fewest} launches and {last} all {most}" in page


@pytest.mark.parametrize(
    ("share", "told"), [(0.02, "n = 149 for p = 2 %"), (0.1, "29 for p = 10 %"), (0.001, "2,995 for p = 0.1 %")]
)
def test_as_many_checks_as_the_page_says_find_a_share_with_95_percent(share, told):
    needed = math.ceil(math.log(0.05) / math.log(1 - share))
    assert told.removeprefix("n = ").startswith(f"{needed:,} for")
    assert told in " ".join(PAGE.split())
