"""`gdnbench mcp`, asked by the protocol's own client: every tool on stored runs and on the CPU."""

import json
import re
import shutil
from contextlib import chdir
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from committed import EVIDENCE, ROOT
from faults import answer
from mcp.shared.exceptions import MCPError
from tools_client import REPORTS, RUN, checked, connected, make_project
from tools_client import environment as make_environment
from warm_processes import end_warm_parents

from gdnbench.errors import UsageError
from gdnbench.mcp.server import INSTRUCTIONS, Ended, bind_tools, refused
from gdnbench.mcp.server import answer as result_of
from gdnbench.verbs.base import parameters_of

pytestmark = pytest.mark.slow

TOOLS = bind_tools(parameters_of)
PAGE = (ROOT / "docs" / "mcp.md").read_text()


@dataclass(frozen=True)
class Tools:
    """The tools without a server: their commands run in this process."""

    project: Path

    def call(self, tool, **arguments):
        with chdir(self.project):
            try:
                call = TOOLS[tool].call(arguments)
            except UsageError as error:
                return checked(refused(error))
        environment = make_environment(self.project, forks=False) | {"COLUMNS": "10000", "NO_COLOR": "1"}
        done = answer(*call.command, folder=self.project, **environment)
        return checked(result_of(call, Ended(done.code, done.out, done.err)))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def client(project):
    return Tools(project)


@pytest.fixture(scope="module")
def server(project):
    with connected(project) as client:
        yield client
    end_warm_parents(project)


def direct(client, *words):
    """What the verb itself prints as JSON, in the project's folder."""
    return answer(*words, "--json", folder=client.project).document


def test_a_client_is_told_how_to_work_and_of_every_tool(server):
    assert server.session.initialize_result.instructions == INSTRUCTIONS
    assert len(INSTRUCTIONS.splitlines()) == 12
    listed = {tool.name: tool for tool in server.portal.call(server.session.list_tools).tools}
    assert list(listed) == [
        *("list", "verify", "inspect", "score", "run", "sweep", "ncu", "explain", "compare", "show"),
        *("try", "ledger", "ready"),
    ]
    assert listed["list"].annotations.read_only_hint
    assert not listed["try"].annotations.read_only_hint
    for tool in listed.values():
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert all(parameter["description"] for parameter in tool.input_schema["properties"].values())
    assert not {"source", "text", "content", "to", "out"} & {
        name for tool in listed.values() for name in tool.input_schema["properties"]
    }


def pages(client, tool, rows, **arguments):
    """Reads all rows of an answer, page by page, as each page says how to go on."""
    read = []
    while True:
        told = client.call(tool, **arguments, offset=len(read)).document
        read += told[rows]
        if not re.search(rf"for the others: {tool}\(.*offset={len(read)}\)", told.get("cut", [""])[0]):
            return read


def test_a_long_list_is_read_in_pages_each_of_which_is_small(client):
    names = [kernel["kernel"] for kernel in pages(client, "list", "kernels")]
    assert len(names) == len(set(names)) > 60
    assert set(names) >= {entry["kernel"] for entry in direct(client, "list")}


def test_the_pages_of_a_run_have_every_case_once(client):
    cases = [(case["label"], case["B"]) for case in pages(client, "show", "cases", run=RUN)]
    own = [row for row in direct(client, "show", RUN)["measurements"] if row["timer"] == "nvbench"]
    assert len(cases) == len(set(cases)) == len(own)


def test_ready_has_every_check_and_what_shows_more(client):
    told = client.call("ready", kernel="decode-syntax-error,decode-v4", gpu="cpu")
    assert told.is_error
    told = client.call("ready", kernel="test-raises", gpu="cpu", suite="contest")
    assert (told.is_error, told.document["ready"], told.document["exit_code"]) == (False, False, 8)
    checks = {check["name"]: check for check in told.document["checks"]}
    assert checks["numbers"]["status"] == "failed"
    assert checks["numbers"]["command"].startswith("gdnbench verify test-raises")


def test_an_experiment_is_written_down_read_and_closed(client):
    words = {"hypothesis": "Wider loads - twice as wide - leave sooner...", "kernel": "decode-v10", "stop": "--never"}
    told = client.call("try", **words, expect=["vs decode-v8 >= 1.02 at B=1", "time <= 9us at B=1"]).document
    entry = told["entry"]
    assert (entry["id"], entry["state"], entry["hypothesis"]) == (1, "open", words["hypothesis"])
    assert entry["expected"] == ["vs decode-v8 >= 1.02 at B=1", "time <= 9us at B=1"]
    client.call("try", hypothesis="and then", kernel="decode-v10", expect=["time <= 4us at B=1"], after=1)
    listed = client.call("ledger").document["entries"]
    assert [(each["id"], each.get("after")) for each in listed] == [(1, None), (2, 1)]
    told = client.call("ledger", entry=1, run=RUN, learned="nothing: it is older")
    assert told.is_error
    assert "before" in told.document["error"]
    assert client.call("ledger", entry=1).document["entry"]["stop"] == "--never"
    wrong = client.call("try", hypothesis="why", kernel="decode-v10", expect=["it is faster"])
    assert (wrong.is_error, len(client.call("ledger").document["entries"])) == (True, 2)
    assert client.call("ledger", run=RUN).document["hint"] == "as in entry=3"


def test_a_long_ledger_and_a_long_change_are_read_in_pages(client):
    kept = client.project / "ledger.jsonl"
    before = kept.read_text() if kept.exists() else ""
    kept.write_text((EVIDENCE / "ledger.jsonl").read_text())
    entries = pages(client, "ledger", "entries")
    assert [each["id"] for each in entries] == [each["id"] for each in direct(client, "ledger")["entries"]]
    assert {"undecided"} <= {each["state"] for each in entries}
    told = client.call("ledger", entry=9).document
    assert told["change"] == direct(client, "ledger", "9")["diff"].splitlines()
    assert (told["entry"]["findings"][0]["low"], told["entry"]["findings"][0]["high"]) == (1.0085, 1.0132)
    kept.write_text(before)


def test_verify_follows_sequences(client):
    told = client.call("verify", kernel="decode-reference", length="64", shape="K=16 V=16", seed=7).document
    assert told["same_for_all"]["status"] == "ok"
    assert [mark["keys"] for mark in told["marks"]] == ["isotropic", "alike"] * 3


def test_verify_tells_wrong_numbers_as_an_answer(client):
    told = client.call("verify", kernel="test-wrong,decode-reference", shape="B=1", seed=7)
    assert not told.is_error
    assert told.document["exit_code"] == 3
    first, second = told.document["cases"]
    assert first["label"] == "test-wrong"
    assert first["status"] != "ok"
    assert first["gates_failed"][0]["worst"] > first["gates_failed"][0]["limit"]
    assert {"where", "got", "expected"} <= first["gates_failed"][0].keys()
    assert second["status"] == "ok"


def test_run_measures_keeps_the_run_and_tells_how_far_it_is(server):
    heard = []
    words = {"kernel": "decode-reference", "gpu": "cpu", "rounds": 3, "samples": 5, "label": "asked"}
    told = server.call("run", heard, **words).document
    assert told["exit_code"] in {0, 4}
    assert told["run_id"].endswith("-cpu-decode-asked")
    assert told["cases"][0]["time_us"] > 0
    assert (server.project / "results" / told["run_id"] / "measurements.csv").exists()
    again = server.call("show", run=told["run_id"]).document
    assert again["cases"] == told["cases"]
    amounts = [progress for progress, _, _ in heard]
    assert all(before < after for before, after in pairwise(amounts))
    assert any(message.startswith("checking 0 of 1") for _, _, message in heard)
    assert any(message.startswith("measuring") for _, _, message in heard)
    assert all(total is None or total >= progress - 0.01 for progress, total, _ in heard)


def test_what_is_no_tool_and_no_parameter_is_said(server):
    with pytest.raises(MCPError, match="no tool 'shell'; there are list, verify"):
        server.call("shell", command="ls")
    told = server.call("show", runs="main")
    assert told.is_error
    assert "runs" in told.document["error"]
    assert "run, join, kernel" in told.document["hint"]
    wrong = server.call("run", kernel="decode-v4", rounds="many")
    assert wrong.is_error
    assert wrong.document["error"].startswith("run: rounds: Expected `int`")
    assert server.call("run").is_error


HOSTILE = {
    "an option for a kernel": ("run", {"kernel": "--out=/tmp/x"}),
    "an option among kernels": ("run", {"kernel": "decode-v4,--out=/tmp/x"}),
    "a short option": ("verify", {"kernel": "-k"}),
    "an option behind a space": ("verify", {"kernel": "decode-v4 --json"}),
    "an option for a run": ("show", {"run": "--output=/tmp/x.png"}),
    "an option for a workload": ("run", {"kernel": "decode-v4", "shape": "B=1 --out=/tmp/x"}),
    "an option for a label": ("run", {"kernel": "decode-v4", "label": "--out"}),
    "a label that leads up": ("run", {"kernel": "decode-v4", "label": "../../x"}),
    "a label with a slash": ("run", {"kernel": "decode-v4", "label": "a/b"}),
    "an option for a param": ("sweep", {"kernel": "decode-v4", "param": ["--out=/tmp/x"]}),
    "a path for a kernel": ("inspect", {"kernel": "/etc/passwd"}),
    "a path that leads up": ("show", {"run": "../outside"}),
    "a path that leads up from results": ("show", {"run": "results/../../outside"}),
    "an absolute path": ("show", {"run": "/etc"}),
    "a published table elsewhere": ("compare", {"sources": ["published/../../outside", "main"]}),
    "a file elsewhere": ("compare", {"sources": ["/etc/passwd"]}),
    "a file of the project beside its folders": ("compare", {"sources": ["secret.csv", RUN]}),
    "a report elsewhere": ("ncu", {"reports": ["/etc/passwd"]}),
    "a report that leads up": ("ncu", {"reports": ["profiles/../../x.csv"]}),
    "a report to explain elsewhere": ("explain", {"kernel": "decode-v1", "report": "/etc/passwd"}),
    "a report to compare with elsewhere": ("ncu", {"reports": [REPORTS[0]], "against": "/etc/passwd"}),
    "a link that leads out": ("show", {"run": "results/linked"}),
    "a link by its name": ("show", {"run": "linked"}),
    "a link to join": ("show", {"run": RUN, "join": ["linked"]}),
    "a link to compare with": ("compare", {"sources": [RUN, "linked"]}),
    "a link to a report": ("ncu", {"reports": ["profiles/ncu/linked.csv"]}),
    "an option for git's kernel": ("inspect", {"kernel": "decode-v4", "against": "git:--output=/tmp/x"}),
    "a line feed": ("show", {"run": "main\n--json"}),
    "a NUL": ("show", {"run": "main\0"}),
    "a long text": ("list", {"kernel": "x" * 5000}),
    "an empty source": ("compare", {"sources": [""]}),
    "a path for what is tried": ("try", {"kernel": "/etc/passwd", "hypothesis": "x", "expect": ["time <= 1us at B=1"]}),
    "an option for what is tried": ("try", {"kernel": "--ledger=x", "hypothesis": "x", "expect": ["time <= 1us"]}),
    "a line feed in a hypothesis": ("try", {"kernel": "decode-v4", "hypothesis": "x\ny", "expect": ["time <= 1us"]}),
    "a run elsewhere that closes": ("ledger", {"entry": 1, "run": "/etc"}),
    "a run that closes by a link": ("ledger", {"entry": 1, "run": "linked"}),
    "a target that is a path": ("run", {"kernel": "decode-v4", "on": "../lab"}),
}


REFUSED = re.compile(
    r"begins with a dash|has '\.\.' in it|leads outside|is a path, and|control character|too many|empty value"
    r"|names no commit"
)
"""What the server itself says, before it starts a command."""


@pytest.fixture(scope="module")
def trapped(tmp_path_factory):
    """A project with links that lead out of it, to a good run and a good report, and a file beside its folders."""
    project = make_project(tmp_path_factory.mktemp("trapped"))
    outside = tmp_path_factory.mktemp("outside")
    (project / "results" / RUN).rename(outside / "run")
    shutil.copytree(outside / "run", project / "results" / RUN)
    (project / "results" / "linked").symlink_to(outside / "run")
    (outside / "report.csv").write_bytes((project / REPORTS[0]).read_bytes())
    (project / "profiles" / "ncu" / "linked.csv").symlink_to(outside / "report.csv")
    (project / "secret.csv").write_text("kernel,time_us\ndecode-v4,secret\n")
    return project


@pytest.mark.parametrize("case", HOSTILE)
def test_what_leads_outside_or_looks_like_an_option_is_refused_before_a_command_is_made(trapped, monkeypatch, case):
    tool, arguments = HOSTILE[case]
    monkeypatch.chdir(trapped)
    with pytest.raises(UsageError, match=REFUSED) as caught:
        TOOLS[tool].call(arguments)
    assert caught.value.hint


def test_what_a_value_cannot_mean_comes_back_as_the_command_says_it(client):
    for arguments in ({"kernel": "decode-v4", "gpu": "$(id)"}, {"kernel": "decode-v4;id"}, {"kernel": "`id`"}):
        told = client.call("verify", **arguments)
        assert told.document["exit_code"] in {2, 5}
        assert told.document["error"]
        assert "uid=" not in told.text


def test_the_page_lists_every_parameter():
    table = {row[0]: row[1] for row in re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE)}
    told = {tool: set(re.findall(r"`(\w+)`", parameters)) for tool, parameters in table.items()}
    assert told == {name: set(tool.schema["properties"]) for name, tool in TOOLS.items()}


@pytest.mark.parametrize(
    ("number", "tool", "arguments"),
    [
        (0, "show", {"run": RUN, "kernel": "decode-auto", "shape": "B=1 HQ=4"}),
        (1, "inspect", {"kernel": "decode-v9", "arch": "sm_90"}),
        (2, "verify", {"kernel": "decode-v44"}),
    ],
)
def test_the_page_shows_what_is_answered(client, number, tool, arguments):
    call = f"{tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in arguments.items())})"
    samples = [block for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if "exit_code" in block]
    assert f"`{call}`" in PAGE
    shown, told = json.loads(samples[number]), client.call(tool, **arguments).document
    if tool == "inspect":  # another compiler has other numbers
        assert shown["builds"][0].keys() == told["builds"][0].keys()
    else:
        assert shown == told
