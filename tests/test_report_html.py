"""The report's file: its structure, what is in it, and that nothing in it reaches outside or breaks out."""

import json
import math
import re
from collections import Counter
from functools import partial

import pytest
from committed import RESULTS
from report_data import HOSTILE, WORKLOADS, Elements, store_run, store_swept
from run_data import case, failed, store

from gdnbench.analyse.suite import fastest_of
from gdnbench.errors import ExitCode, RunFormatError
from gdnbench.verbs.html.page import headline
from gdnbench.verbs.html.report import inline_json, read_stored, write_report

VOID = {"meta", "input", "br", "img", "link"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    return store_run(results), store_swept(results)


@pytest.fixture(scope="module")
def whole(stored, tmp_path_factory):
    output = tmp_path_factory.mktemp("out") / "report.html"
    write_report(stored, output)
    return output.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(whole):
    return Elements(whole)


def made(tmp_path, *folders):
    output = tmp_path / "made.html"
    write_report(folders, output)
    return Elements(output.read_text(encoding="utf-8"))


def test_one_heading_of_the_first_order_and_the_landmarks(page):
    assert [len(page.all(tag)) for tag in ("h1", "main", "header", "nav", "footer", "title")] == [1] * 6
    assert page.all("html") == [{"lang": "en"}]
    assert any("width=device-width" in attributes.get("content", "") for attributes in page.all("meta"))


def test_every_id_is_unique_and_every_link_leads_to_one(page):
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in page.all("a")]
    assert links[0] == "#content"
    assert {link.removeprefix("#") for link in links} <= set(ids)
    labelled = {attributes["aria-labelledby"] for _, attributes in page.found if "aria-labelledby" in attributes}
    assert labelled <= set(ids)


def test_nothing_is_loaded_from_elsewhere(whole, page):
    for _, attributes in page.found:
        assert not {"src", "srcset", "action", "background", "poster"} & attributes.keys()
        assert not any(value and re.match(r"(https?:)?//", value) for value in attributes.values())
    assert page.all("link") == []
    (style,) = re.findall(r"<style>(.*?)</style>", whole, re.DOTALL)
    assert not re.search(r"url\(|@import|https?:", style)
    (policy,) = (
        attributes["content"]
        for attributes in page.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_elements_are_closed(page):
    assert Counter(tag for tag, _ in page.found if tag not in VOID) == Counter(page.closed)


def test_what_users_write_is_text(whole, page):
    assert HOSTILE.split(" <b>")[0] in page.seen  # as text, that is: unescaped by the parser
    assert "alert(1)</script>" not in whole
    assert "{{ 7*7 }}" in page.seen
    assert not page.all("b") or all(not attributes for attributes in page.all("b"))


@pytest.mark.parametrize("text", [HOSTILE, "<!--", "]]>", "\u2029", "'\"\\"])
def test_json_in_a_script_cannot_end_it(text):
    inlined = inline_json({"kernel": text, "time": math.nan})
    assert not set("<>&\u2028\u2029") & set(inlined)
    assert json.loads(inlined) == {"kernel": text, "time": None}


def test_every_table_has_a_caption_and_headings_of_buttons_to_sort_by(page, whole):
    tables = page.all("table")
    assert len(tables) == whole.count("<caption>")
    sortable = [attributes for attributes in tables if attributes.get("class") == "sortable"]
    assert len(sortable) == 1 + len(WORKLOADS) + 2  # the summary, the workloads, the sweep's two plateaus
    assert len(re.findall(r'<th scope="col"[^>]*><button type="button"', whole)) >= 5 * len(sortable)


def test_charts_reserve_their_height_and_tell_what_they_are(page, whole):
    places = [attributes for attributes in page.all("div") if attributes.get("class") == "chart"]
    assert len(places) == 1
    assert all(re.fullmatch(r"height:\d+px", attributes["style"]) for attributes in places)
    specs = [json.loads(found) for found in re.findall(r"data-chart=[^>]*>(.*?)</script>", whole, re.DOTALL)]
    assert len(specs) == len(places)
    assert all(spec["description"] and spec["$schema"].endswith("v6.json") for spec in specs)


def test_every_chart_is_one_that_the_library_compiles(whole):
    import altair
    import vl_convert

    for found in re.findall(r"data-chart=[^>]*>(.*?)</script>", whole, re.DOTALL):
        spec = vl_convert.vegalite_to_vega(json.loads(found), vl_version="6.4")
        assert spec["marks"]
        assert altair.LayerChart.from_dict(json.loads(found)), "which raises where the schema forbids something"


def test_a_run_of_one_workload_without_samples_or_times_is_shown(tmp_path):
    store(tmp_path, [failed(case("decode-v4"))], complete=False)
    page = made(tmp_path, tmp_path)
    assert "the process died" in page.seen
    assert "partial" in page.seen
    assert not [attributes for attributes in page.all("div") if attributes.get("class") == "chart"]


@pytest.mark.parametrize("name", ["run.json", "measurements.csv", "rounds.csv", "sweep.json"])
def test_a_damaged_run_is_named_and_the_last_report_stays(tmp_path, name):
    sound = store_run(tmp_path)
    damaged = store_swept(tmp_path) if name == "sweep.json" else store_run(tmp_path, "20260105-000000-h200-decode")
    path = damaged / name
    path.write_bytes(path.read_bytes()[:-40])
    output = tmp_path / "report.html"
    output.write_text("the last one")
    with pytest.raises(RunFormatError) as caught:
        write_report([sound, damaged], output)
    assert damaged.name in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == ExitCode.USAGE
    assert output.read_text() == "the last one"
    assert not list(tmp_path.glob(".*.new"))


def test_the_fastest_is_found_among_kernels_that_were_timed_in_different_processes():
    """FlashInfer, whose kernels run Python of their own, shares no round with decode-auto, and FLA some with either."""
    run = read_stored(RESULTS / "20261126-092952-h200-decode-hopper-large")
    rounds = {case: times for (case, clock), times in run.rounds.items() if clock is None}
    fastest = [fastest_of(run.info, run.at(workload), rounds) for workload in run.workloads]
    assert [(each.row.case.label, each.tied, each.unclear) for each in fastest] == [("decode-auto", (), ())] * 3


DECODED = "20261126-110921-h200-decode-processes"
DISAGREED = "20261126-111521-h200-nvfp4-gemv-processes"  # CUPTI read more than NVBench, so nothing is compared


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (DECODED, "is 1.471x (1.459x to 1.482x; decode-auto or decode-v9 at B=1 qk4_v8) as fast as decode-fla with "
         "forgetful inputs on NVIDIA H200, by kernel time (95% intervals)."),
        ("20261126-110921-h200-prefill-profiles", "8192 forgetful) as fast as prefill-fla on NVIDIA H200, by stream"),
        ("20261124-173427-h200-decode-try-1", "No kernel is faster than the baseline, decode-v9, on NVIDIA H200, by k"),
        (DISAGREED, "No kernel is compared with a baseline."),
    ],
)  # fmt: skip
def test_the_report_leads_with_the_ratio_of_the_fastest_kernel(name, told):
    assert told in headline(read_stored(RESULTS / name))


def test_a_workload_names_the_kernels_that_depend_on_their_inputs(tmp_path):
    page = made(tmp_path, RESULTS / "20261127-205913-h100-kda-prefill-alone")
    assert "kda-prefill-v7 takes 3.137x ±1.70% as long in never as in production" in page.seen


def test_kernel_times_lead_with_their_own_verdicts_unless_the_clocks_disagree():
    agreed, disagreed = (read_stored(RESULTS / name) for name in (DECODED, DISAGREED))
    for run in (agreed, disagreed):
        rows = run.leading(run.rows)
        assert {row.clock for row in rows} == {"cupti"}
        assert any(row.versus for row in rows) is (run is agreed)
    stream = {row.case.label: row.versus for row in agreed.rows if row.versus}
    kernel = {row.case.label: row.versus for row in agreed.leading(agreed.rows) if row.versus}
    assert kernel["decode-v9"].low > stream["decode-v9"].high


def test_a_run_says_what_it_lacks_for_a_roofline(page):
    assert "No roofline: 20260102-030405-h200-decode-main has no FLOPs and bytes of its op's work" in page.seen


RUN = "20260102-030405-h200-decode-main"


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    store_run(tmp_path / "results", samples=False)
    store_swept(tmp_path / "results")
    return partial(command_line, "report")


def test_the_latest_run_that_compared_kernels_by_default_and_what_to_do_next(run, tmp_path):
    code, out, err = run()
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith("report.html  (")
    assert second == f"next: python3 -m webbrowser {(tmp_path / 'report.html').as_uri()}"
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert RUN in text
    assert "20260102-040506-h200-decode-sweep" not in text  # newer, and named where it is wanted


@pytest.mark.parametrize("wanted", [RUN, "20260102-03", "main", f"results/{RUN}"])
def test_runs_are_named_as_for_show(run, tmp_path, wanted):
    code, _, err = run(wanted, "-o", "out.html")
    assert (code, err) == (0, "")
    assert f'<h2 id="run-1">{RUN}' in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_run_that_is_named_twice_is_shown_once(run, tmp_path):
    assert run(RUN, "main", "sweep")[0] == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.index('id="run-1"') < text.index('id="run-2"')
    assert 'id="run-3"' not in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no-such-run"], "no-such-run"),
        (["published/nothing"], "nothing"),
        (["-o", "notes.md"], "ends in .html or .htm"),
        ([RUN, "--nonsense"], "nonsense"),
    ],
    ids=str,
)
def test_a_wrong_name_is_a_usage_error_and_writes_nothing(run, tmp_path, arguments, told):
    (tmp_path / "notes.md").write_text("mine")
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert told in " ".join(err.split())
    assert "hint:" in err or "nonsense" in told
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_without_the_libraries_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr("gdnbench.verbs.html.report.find_spec", lambda _name: None)
    code, _, err = run()
    assert code == ExitCode.ENVIRONMENT
    assert "a report needs jinja2, altair, vl_convert" in err
    assert "gdnbench[report]" in err
