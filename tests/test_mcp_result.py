"""What becomes of a tool's parameters and of a command's output, without a server."""

import json

import pytest

pytest.importorskip("mcp")

import anyio
from committed import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdnbench.errors import UsageError
from gdnbench.mcp import server
from gdnbench.mcp.server import Ended, answer, bind_tools, describe, is_wrong_request
from gdnbench.mcp.tool import check_name, check_path, split_names
from gdnbench.process.events import PhaseBegun
from gdnbench.render.digest import LIMIT_BYTES, Digest, fit, to_text
from gdnbench.verbs.base import parameters_of

TOOLS = bind_tools(parameters_of)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=900),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=40), inner, max_size=12),
    max_leaves=20,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    fields=st.dictionaries(st.sampled_from("abcdef"), JSON, max_size=6),
    rows=st.lists(st.dictionaries(st.sampled_from("xyz"), JSON, max_size=3), max_size=60),
    offset=st.integers(0, 70),
)
def test_any_result_is_small_and_is_json(fields, rows, offset):
    digest = Digest({**fields, "rows": rows}, "rows", offset, "show(offset={offset})")
    document = fit({"exit_code": 0, "meaning": "done"}, digest, ["a warning"])
    text = to_text(document)
    assert len(text.encode()) <= LIMIT_BYTES
    assert json.loads(text)["exit_code"] == 0


@settings(max_examples=15, deadline=None)
@given(count=st.integers(0, 400), width=st.integers(1, 700))
def test_rows_that_are_left_out_are_counted_and_can_be_read_by_the_call_that_is_named(count, width):
    rows = [{"number": number, "text": "x" * width} for number in range(count)]
    seen = []
    for _ in range(count + 1):
        document = fit({"exit_code": 0}, Digest({"rows": rows}, "rows", len(seen), "again({offset})"))
        seen += [row["number"] for row in document["rows"]]
        cut = document.get("cut", [""])[0]
        if "again" not in cut:
            break
        assert f"again({len(seen)})" in cut
    assert seen == list(range(count))


@pytest.mark.parametrize("output", ["no JSON", '{"x": 1}', "[1, 2]", "null", '[{"kernel": null}]', "[]"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        *(("list", {}), ("show", {}), ("compare", {"sources": ["a"]})),
        *(("explain", {"kernel": "a"}), ("ncu", {}), ("inspect", {"kernel": "a"})),
    ],
)
def test_output_that_is_not_as_expected_is_given_as_it_stands(tool, arguments, output):
    result = answer(TOOLS[tool].call(arguments), Ended(0, output))
    assert result.structured_content["exit_code"] == 0
    if "error" in result.structured_content:
        assert result.structured_content["output"] == output


def test_an_error_of_several_lines_is_told_with_its_hint():
    ended = Ended(6, "", "warning: old\nerror: kernel.cu:3: no\n  float x\n  ^\nhint:  mend it\n")
    told = describe(ended, {})
    assert told["meaning"] == "a kernel did not build or load"
    assert told["error"] == "kernel.cu:3: no\n  float x\n  ^"
    assert told["hint"] == "mend it"


@pytest.mark.parametrize(
    ("code", "wrong"), [(0, False), (1, False), (2, True), (3, False), (5, False), (70, True), (-9, True)]
)
def test_a_request_is_wrong_by_what_it_asked_and_not_by_what_a_kernel_does(code, wrong):
    assert is_wrong_request(code) is wrong


def test_a_client_hears_of_a_command_that_is_silent(monkeypatch):
    monkeypatch.setattr(server, "_SILENCE_S", 0.02)
    told = []

    async def report(*words):
        told.append(words)

    async def listen():
        following = server.Progress(report)
        following.observe(PhaseBegun("build", 2))
        with anyio.move_on_after(0.5):
            await following.keep_reporting()

    anyio.run(listen)
    amounts = [amount for amount, _, _ in told]
    assert len(told) > 3
    assert amounts == sorted(set(amounts))
    assert told[0][1:] == (2.0, "building 0 of 2")
    assert told[-1][2].startswith("building 0 of 2 (")


def command_of(tool, **arguments):
    return TOOLS[tool].call(arguments).command


def test_options_are_one_word_each_and_arguments_stand_behind_two_dashes():
    kernels, shape = "decode-v4, decode-triton:BV=16", "B=1,8 heads=qk4_v8"
    assert command_of("run", kernel=kernels, shape=shape, rounds=7, quick=True, label="x1") == (
        "run", f"--shape={shape}", "--gpu=auto", "--rounds=7", "--quick", "--label=x1", "--json", "--", "decode-v4",
        "decode-triton:BV=16",
    )  # fmt: skip
    sweep = command_of("sweep", kernel="decode-triton", param=["BV=4,8", "WARPS"])
    assert sweep[1:3] == ("--param=BV=4,8", "--param=WARPS")
    assert "--diff=git:HEAD~1" in command_of("inspect", kernel="decode-v4", against="git:HEAD~1")
    assert command_of("try", hypothesis="-x", kernel="decode-v4", expect=["time <= 1us"], after=1) == (
        "ledger", "add", "--kernel=decode-v4", "--expect=time <= 1us", "--after=1", "--json", "--", "-x",
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(value=st.text(st.sampled_from("-=./\\ ,:\n\0a~$`;|&"), max_size=12))
def test_no_value_becomes_an_option_or_a_path(value):
    try:
        names = split_names(value, "kernel")
    except UsageError:
        return
    for name in names:
        assert not name.startswith("-")
        assert not {"/", "\\", "\n", "\0"} & set(name)
        assert ".." not in name
    assert command_of("run", kernel=value) == ("run", "--gpu=auto", "--json", *(["--", *names] if names else []))


def test_paths_are_taken_by_where_they_lead(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "run").mkdir(parents=True)
    (tmp_path / "results" / "inner").symlink_to("run")
    (tmp_path / "results" / "outer").symlink_to(ROOT)
    for good in ("results/run", "results/inner", str(tmp_path / "results" / "run"), "profiles/not/there/yet.csv"):
        assert check_path(good, "run") == good
    for bad in ("results/outer", "results/outer/README.md", "results", "other", str(ROOT), "results/../other"):
        if bad != "results":
            with pytest.raises(UsageError):
                check_path(bad, "run")


@pytest.mark.parametrize("value", ["", " ", "-", "--", "a\x1bb", "a" * 501, "\udcff"])
def test_a_value_that_is_no_name_is_refused(value):
    with pytest.raises(UsageError):
        check_name(value, "kernel")
