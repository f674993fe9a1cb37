"""What the verbs print, byte for byte, as it is in `data/golden`: the commands are in `golden.py`.

Numbers in JSON and CSV are held to 13 digits: NumPy sums in another order where a CPU has wider vectors. One file a
command and form: its stdout, and below it stderr and exit code where there is something to say. What is meant to change
is written anew with

    GDNBENCH_REWRITE_GOLDEN=1 pytest -n 0 tests/test_golden.py

and `git diff` shows what did. The commands see only the runs that are named there, so that one that is committed later
alters nothing. They need no GPU, and what they print depends on neither the date nor the place of the checkout.
"""

import difflib
import html
import json
import os
import re
import shlex
import shutil
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import golden
import made
import pytest
import simulated_workers
from committed import EVIDENCE, ROOT
from faults import ADVERSARIAL, python_path
from golden import FORMS, TOOLS
from test_step import SimulatedChains
from warm_processes import end_warm_parents

from gdnbench.analyse.runs import load_stored_runs
from gdnbench.doctor.checks import Level, MachineCheck
from gdnbench.profile.recording import read_trace
from gdnbench.render.view import TableView, viewed
from gdnbench.verb_table import VERBS
from gdnbench.verbs.base import Listed

FOLDER = Path(__file__).parent / "data" / "golden"
REWRITE = bool(os.environ.get("GDNBENCH_REWRITE_GOLDEN"))
COMPILERS = {"nvidia-cuda-nvrtc": "13.0.", "triton": "3.7."}
"""Whose code is in the goldens; with others, those of compiled code are skipped."""

PLACES = ("early", "later", "written", "compiled", "more", "simulated", "checked", "machine", "made")
SUFFIXES = {"120": ".txt", "60": ".60.txt", "80": ".80.txt", "200": ".200.txt", "html": ".html.txt"}
# Where the command of a tool runs, when that is not `later`.
PLACE_OF = {"try": "written", "inspect": "compiled", "explain": "compiled"}
CASES = {
    name + SUFFIXES.get(form, f".{form}"): (place, command, form)
    for place in PLACES
    for name, (command, forms) in getattr(golden, place.upper()).items()
    for form in forms.split()
} | {f"tool-{name}.json": (PLACE_OF.get(tool, "later"), f"tool {name}", "tool") for name, (tool, _) in TOOLS.items()}
CHANGING = (
    (r"\b20\d{6}-\d{6}-(b200|cpu|published)\b", r"20260102-030405-\1"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?", "2026-01-02T03:04:05+00:00"),
    (r'(?<="seconds": \{)[^}]*', ""),
    (r"(?s)[\d.]+ s:\sstarting.*?\n\n", "1.0 s: starting\n\n"),
    (r"\bseed \d{4,} *", "seed 1"),
    (r'(?s)\n( *)"(machine|git|sources)": \{\n.*?\n\1\}', r'\n\1"\2": {}'),
)
"""What differs from one day or machine to the next, and what stands for it."""
BUILT = (
    (r"/[^\s\",]+/builds/([^\s\",]+)-[0-9a-f]{16}\.cubin", r"/checkout/builds/\1.cubin"),
    (r'(?<="code_bytes": )\d+', "1"),  # line tables hold the checkout's path
)
"""As before, of builds, which are kept by a hash of what builds them."""


CHECKS = (
    MachineCheck("Python", Level.OK, "3.11.7"),
    MachineCheck("torch", Level.FAIL, "ModuleNotFoundError: No module named 'torch'", "pip install torch", True),
    MachineCheck("GPU 0", Level.OK, "NVIDIA H200 (sm_90), 132 SMs, 60 MiB L2, 140 GiB, ECC on"),
    MachineCheck("calibration", Level.WARN, "none: verdicts' errors are not known", "gdnbench doctor --calibrate"),
)
read_trace_once = cache(read_trace)


@cache
def read_runs(_names):
    return load_stored_runs(Path("results"))


def read_once(results, _observer=None):
    """Every history of a place is of the same runs, which take seconds to read."""
    return read_runs(tuple(sorted(path.name for path in Path(results).iterdir())))


@pytest.fixture
def home():
    """An empty folder whose path is as long as that of any other."""
    if not (EVIDENCE / golden.MAIN).is_dir():
        pytest.skip("the checkout's results are not here")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="golden-") as folder:
        yield Path(folder)
        end_warm_parents(Path(folder))


LEFT_OUT = shutil.ignore_patterns("*.parquet", "nvbench*")
ENTRIES = 24  # of the ledger, the first ones: more would only make golden files longer


def furnish(home, place, copied):
    """Lays out the runs, profiles, ledger and targets that commands of a place see."""
    (home / "results").mkdir()
    for name in (*(golden.EARLY_RUNS if place == "early" else golden.LATER_RUNS), "published"):
        if copied:  # a tool follows no link out of its project, and a run that goes must be there
            shutil.copytree(EVIDENCE / name, home / "results" / name, ignore=LEFT_OUT)
        else:
            (home / "results" / name).symlink_to(EVIDENCE / name)
    if place == "early":
        return
    lines = (EVIDENCE / "ledger.jsonl").read_text().splitlines(keepends=True)
    (home / "ledger.jsonl").write_text("".join(each for each in lines if int(json.loads(each)["id"]) <= ENTRIES))
    for kind, kernels in golden.PROFILES.items():
        (home / "profiles" / kind).mkdir(parents=True)
        for kernel in kernels:
            shutil.copytree(ROOT / "profiles" / kind / kernel, home / "profiles" / kind / kernel)
    (home / "gdnbench.toml").write_text('[targets.farm]\nkind = "ssh"\nhost = "gpu1"\ngpus = ["h200", "b200"]\n')
    (home / "SET").symlink_to(ROOT / "tests" / "data" / "exchange" / "set")


def bring_kernels(home, monkeypatch, *names):
    """Copies folders of the tests' own kernels to where their paths are as long as anywhere."""
    folders = [home / name.replace("/", "-") for name in names]
    for name, folder in zip(names, folders, strict=True):
        shutil.copytree(ROOT / "tests" / name, folder)
    monkeypatch.setenv("GDNBENCH_KERNELS", os.pathsep.join(map(str, folders)))


def go_to(place, home, monkeypatch, command):
    """Has the kernels, GPU and cache of a place; gives the command without its scene, which is laid out."""
    if place in {"early", "later", "written"} or "--dry-run" in command:
        monkeypatch.setenv("GDNBENCH_CACHE", str(home / "cache"))  # of which some commands tell what it holds
        (home / "cache" / "fatbin").mkdir(parents=True)
        monkeypatch.setattr("gdnbench.measure.plan.build_processes", lambda: 2)
    for module in ("machine.gpus", "diagnose.gather", "profile.process", "measure.start"):
        monkeypatch.setattr(f"gdnbench.{module}.list_gpus", tuple)
    if place == "simulated":
        simulated_workers.install(monkeypatch.setattr)
        if command.startswith("step "):
            monkeypatch.setattr("gdnbench.measure.timing.supervise", SimulatedChains())
    elif place == "machine":
        monkeypatch.setattr("gdnbench.doctor.checks.run_checks", lambda *_: CHECKS)
    elif place == "checked":
        bring_kernels(home, monkeypatch, "toys", "adversarial/cpu", "adversarial/both", "specimens/moved")
        monkeypatch.setenv("PYTHONPATH", python_path(ROOT, ADVERSARIAL))
    elif place == "made":
        return make(home, *command.split()[1:])
    elif place == "more":
        kernels = (ROOT / "tests" / name for name in ("toys", "data/binary/kernels", "specimens"))
        monkeypatch.setenv("GDNBENCH_KERNELS", os.pathsep.join(map(str, kernels)))
        (home / "data").symlink_to(ROOT / "tests" / "data")
        scene, _, command = command.rpartition(": ")
        if scene:
            made.SCENES[scene](home)
    return command


@pytest.fixture
def run(home, command_line, monkeypatch, capsys):
    """Runs a command of a place in a form; gives what it printed, with what else it wrote where that is the point."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr("gdnbench.analyse.runs.load_stored_runs", read_once)
    monkeypatch.setattr("gdnbench.profile.recording.read_trace", read_trace_once)

    def call(place, command, form):
        furnish(home, place, form == "tool" or place == "written")
        command = go_to(place, home, monkeypatch, command)
        if form == "tool":
            return called(command.removeprefix("tool "), command_line)
        words = shlex.split(command) + ([FORMS[form]] if form in FORMS else [])
        columns = form if form.isdigit() else "120"
        if words[0] in made.PRINTED:
            monkeypatch.setenv("COLUMNS", columns)
            with viewed(TableView(markdown=form == "md")):
                made.PRINTED[words[0]](json=form == "json", csv=form == "csv")
            code, (out, err) = 0, capsys.readouterr()
        else:
            code, out, err = command_line(*words, columns=columns)
        if form == "html":
            out = text_of_html((home / "report.html").read_text())
        printed = without_gates(out) if form == "json" else out
        ends = (("stderr", err), ("exit code", code))
        return printed + "".join(f"--- {what}\n{text}\n" for what, text in ends if text)

    return call


def text_of_html(page):
    """The words of a page: a line a row of a table or a paragraph, without charts and style."""
    page = re.sub(r"<(script|style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</t[hd]>", " | ", page.replace("\n", " "))
    page = re.sub(r"</?(tr|p|h\d|li|d[td]|caption|figcaption|summary|title|nav|section)\b[^>]*>", "\n", page)
    lines = (" ".join(html.unescape(line).split()) for line in re.sub(r"<[^>]*>", "", page).split("\n"))
    return "\n".join(filter(None, lines)) + "\n"


def make(home, name, *options):
    """Writes a run of `made`; gives the command that shows it, or the name of what is printed without one."""
    if name in made.PRINTED:
        return name
    folder = (
        home / "made" / ("20260102-030405-h200-decode-clocks" if "clocks" in name else "20260102-030405-h200-decode")
    )
    folder.parent.mkdir()
    if "clocks" not in name:
        folder.mkdir()
    made.STORED[name](folder)
    return " ".join(["show", "--out made", *options])


def called(name, command_line):
    """The answer of a tool, whose command runs in this process."""
    from gdnbench.errors import GdnbenchError
    from gdnbench.mcp.server import Ended, answer, bind_tools, refused
    from gdnbench.verbs.base import parameters_of

    tool, arguments = TOOLS[name]
    try:
        call = bind_tools(parameters_of)[tool].call(arguments)
        result = answer(call, Ended(*command_line(*call.command, columns="500")))
    except GdnbenchError as error:
        result = refused(error)
    return json.dumps({"is_error": result.is_error, **result.structured_content}, indent=1, ensure_ascii=False) + "\n"


def settled(text, home, place):
    """The text without what differs from one day, machine or folder to the next."""
    for path, stand_in in ((str(home), "/tmp/golden-folder"), (str(ROOT), "/checkout")):
        text = text.replace(path, stand_in)
    for pattern, stand_in in (*BUILT, *(CHANGING if place in {"written", "simulated", "checked"} else ())):
        text = re.sub(pattern, stand_in, text)
    return text


@pytest.mark.parametrize("name", CASES)
def test_it_prints_what_it_always_printed(name, run, home):
    place, command, form = CASES[name]
    if place in {"compiled", "more"} and not all(version(of).startswith(wanted) for of, wanted in COMPILERS.items()):
        pytest.skip("other compilers make other code")
    if form == "tool":
        pytest.importorskip("mcp")
    printed = settled(run(place, command, form), home, place)
    path = FOLDER / name
    expected = rounded(path.read_text()) if path.exists() else None
    if REWRITE and rounded(printed) != expected:
        path.write_text(printed)
        return
    printed = rounded(printed)
    if printed != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), printed.splitlines(), str(path.relative_to(ROOT)), command, lineterm=""
        )
        pytest.fail("\n".join(lines) or "they differ in how lines end", pytrace=False)


def all_verbs():
    """Every command of the command line with its options, by the words that call it."""
    for row in VERBS.values():
        verb = Listed(row).with_options()
        yield row.name, {word for param in verb.params for word in param.opts}
        for name, inner in getattr(verb, "commands", {}).items():
            yield f"{row.name} {name}", {word for param in inner.params for word in param.opts}


WITHOUT = {"mcp", "worker", "exchange"}
"""Servers, a group, and what another machine answers."""


def test_every_verb_has_a_golden_in_each_of_its_forms():
    known = dict(all_verbs())
    forms = {verb: ["text", *(form for form, word in FORMS.items() if word in words)] for verb, words in known.items()}
    held = set()
    for _, command, form in CASES.values():
        first, second, *_ = (*command.split(), "")
        verb = f"{first} {second}"
        held.add((verb if verb in known else first, form if form in FORMS else "text"))
    assert not {(verb, form) for verb in known if verb not in WITHOUT for form in forms[verb]} - held


def test_every_golden_file_is_of_a_command():
    assert {path.name for path in FOLDER.iterdir()} == set(CASES)
    assert max(path.stat().st_size for path in FOLDER.iterdir()) < 100_000


def rounded(text):
    """The text with what follows the 13th digit of its numbers left out."""
    return re.sub(r"\d+\.\d{12,}(?:e[+-]\d+)?", lambda number: f"{float(number[0]):.13g}", text)


def test_numbers_are_held_to_13_digits_and_all_else_to_every_byte():
    assert rounded('"hi": 1.1522758383956853,') == rounded('"hi": 1.152275838395685,')
    assert rounded("0.0019030559357154311 x") == rounded("0.0019030559357154300 x")
    for one, other in (("1.15227583839", "1.15227583838"), ("1.152275838395", "1.152275838396"), ("a b", "a  b")):
        assert rounded(one) != rounded(other)


def without_gates(text):
    """A run's JSON without what its gates found, which is most of it, and which not all committed runs have kept."""
    return re.sub(r'\n    "gates(?:_passed)?": .*?(?=\n    "|\n  \})', "", text, flags=re.DOTALL)
