"""The report in a real browser: it draws, sorts, fits, keeps still, and asks for nothing."""

import pytest
from chromium import chromium, need_chromium, press, requests, until, view
from committed import RESULTS
from report_data import store_run, store_swept

from gdnbench.verbs.html.report import write_report

pytestmark = pytest.mark.slow

TABLE = "run-1-b1-qk4-v8-table"
WIDTHS = [360, 768, 1280]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    need_chromium()
    results = tmp_path_factory.mktemp("results")
    one = store_run(results)
    other = store_run(results, "20260103-030405-b200-decode", gpu="b200", samples=False)
    output = results / "report.html"
    write_report([one, other, store_swept(results), RESULTS / "20261124-172052-h200-fp8-gemm-pos-study"], output)
    return output


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def page(browser, report):
    browser.get_log("browser")
    browser.get_log("performance")

    def open_(**how):
        view(browser, report, **how)
        return browser

    return open_


def column(driver, heading, table=TABLE):
    """The texts of a column, as they stand, and how it is sorted."""
    return driver.execute_script(
        """
        const [id, wanted] = arguments;
        const table = document.getElementById(id);
        const heads = [...table.tHead.rows[0].cells];
        const at = heads.findIndex((head) => head.textContent.trim() === wanted);
        return [[...table.tBodies[0].rows].map((row) => row.cells[at].textContent.trim()), heads[at].ariaSort];
        """,
        table,
        heading,
    )


def button(driver, heading, table=TABLE):
    return driver.execute_script(
        "return [...document.getElementById(arguments[0]).querySelectorAll('thead button')]"
        ".find((each) => each.textContent === arguments[1])",
        table,
        heading,
    )


def test_every_chart_is_drawn_and_nothing_is_complained_of(page):
    driver = page()
    charts = driver.execute_script(
        "return [...document.querySelectorAll('.chart')].map((place) => [place.id, 'drawn' in place.dataset,"
        " place.querySelectorAll('svg path, svg rect, svg text').length, place.querySelector('svg').getBBox().width])"
    )
    assert len(charts) == 1 + 1 + 2  # the last has a roofline
    for name, drawn, marks, width in charts:
        assert drawn, name
        assert marks > 5, name
        assert width > 100, name
    assert [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"] == []


def test_nothing_is_asked_for_but_the_file(page, report):
    driver = page()
    assert {url.partition("#")[0] for url in requests(driver) if not url.startswith(("data:", "chrome"))} == {
        report.as_uri()
    }


def test_what_users_wrote_ran_nowhere(page):
    driver = page()
    assert "alert(1)" in driver.find_element("tag name", "main").text
    assert driver.execute_script("return document.scripts.length") == driver.execute_script(
        "return document.querySelectorAll('body > script, figure > script').length"
    )


def test_a_click_sorts_and_another_turns_it_round(page):
    driver = page()
    before, _ = column(driver, "vs fla")
    press(driver, button(driver, "vs fla"))
    up, sort = column(driver, "vs fla")
    known = [text for text in up if text]
    assert sort == "ascending"
    assert up[len(known) :] == [""] * (len(up) - len(known))  # the floors, which are compared with nothing
    speedups = [float(text.partition("x")[0]) for text in known]
    assert speedups == sorted(speedups)
    press(driver, button(driver, "vs fla"))
    down, sort = column(driver, "vs fla")
    assert sort == "descending"
    assert down[: len(known)] == known[::-1]
    assert sorted(down) == sorted(before)


def lines(driver):
    """How many kernels the first chart draws."""
    return driver.execute_script(
        "return document.querySelectorAll('#run-1-times-qk4_v8 .mark-line path[stroke^=\"#\"]').length"
    )


def test_the_picker_rules_the_charts(page):
    driver = page()
    sets = {each.text: each for each in driver.find_elements("css selector", "#run-1-kernels [data-set]")}
    floors = 2
    assert lines(driver) == floors + 8
    press(driver, sets["All"])
    until(driver, f"return document.querySelectorAll('#run-1-times-qk4_v8 .mark-line path').length === {floors + 13}")
    press(driver, sets["None"])
    until(driver, f"return document.querySelectorAll('#run-1-times-qk4_v8 .mark-line path').length === {floors}")
    press(driver, driver.find_element("css selector", "#run-1-kernels input[value=decode-k5]"))
    until(driver, f"return document.querySelectorAll('#run-1-times-qk4_v8 .mark-line path').length === {floors + 1}")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways(page, width):
    driver = page(width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    driver.execute_script("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
