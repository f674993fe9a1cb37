"""What `show`, `compare` and `history` print of the committed runs, byte for byte, as it is in `data/golden`.

Numbers in JSON and CSV are held to 13 digits: NumPy sums in another order where a CPU has wider vectors.

The runs are of schema 1 from its first day on, and will be read for ever. One file a command: its stdout, and below it
stderr and exit code where there is something to say. What is meant to change is written anew with

    GDNBENCH_REWRITE_GOLDEN=1 pytest -n 0 tests/test_golden.py

and `git diff` shows what did. The commands see only the runs that are named here, so that one that is committed later
alters no history. They need no GPU, and what they print depends on neither the date nor the place of the checkout.
"""

import difflib
import os
import re
from functools import cache
from pathlib import Path

import pytest
from committed import EVIDENCE, ROOT

from gdnbench.analyse.runs import load_stored_runs

GOLDEN = Path(__file__).parent / "data" / "golden"
REWRITE = bool(os.environ.get("GDNBENCH_REWRITE_GOLDEN"))
COLUMNS = "120"

RUNS = (
    "20261121-100542-h200-decode-main",
    "20261121-101900-h200-decode-main",
    "20261121-104159-h200-decode",
    "20261121-104327-h200-decode-plain-1",
    "20261121-104356-h200-decode-default-1",
    "20261121-104427-h200-decode-plain-2",
    "20261121-104456-h200-decode-default-2",
    "20261121-104526-h200-decode-plain-3",
    "20261121-104557-h200-decode-default-3",
    "20261121-180525-h200-decode-sweep-bv",
    "20261121-180544-h200-decode-sweep-joint",
    "20261121-181852-h200-decode-main",
    "20261121-182329-h200-decode-sweep-batches",
    "20261121-182434-h200-decode-sweep-tma",
    "20261121-185007-h200-decode-main",
    "20261121-185458-h200-decode-main",
    "20261121-212854-h200-decode-clocks",
    "20261121-221410-h200-decode-candidates",
    "20261121-221559-h200-decode-hopper",
    "20261122-003003-h200-decode-dispatch",
    "20261122-003129-h200-decode-dispatch-qk16",
    "20261122-023027-h200-decode-triton-one",
    "20261122-024054-h200-decode-hopper",
    "20261122-024300-h200-decode-hopper-qk16",
    "20261122-024409-h200-decode-ablation",
)

SHOWN_OTHERWISE = {
    "show-main.csv": "show 20261121-185458 --csv",
    "show-clocks.csv": "show clocks --csv",
    "show-clocks.json": "show clocks --json",
    "show-ablation.csv": "show ablation --csv",
    "show-ablation.json": "show ablation --json",
    "show-plain-1.json": "show plain-1 --json",
    "show-sweep-bv.csv": "show sweep-bv --csv",
    "show-sweep-bv.json": "show sweep-bv --json",
    "show-latest.txt": "show",
    "show-latest-of-a-gpu.txt": "show h200",
    "show-sweep-joint-declaration.txt": "show sweep-joint --emit-dispatch",
    "show-dispatch-declaration.txt": "show 20261122-003003 --emit-dispatch",
    "show-dispatch-qk16-declaration.txt": "show dispatch-qk16 --emit-dispatch",
    "show-contest-over.txt": "show 20261122-024054 --suite contest --over decode-fla,decode-flashinfer",
    "show-contest-over.csv": "show 20261122-024054 --suite contest --over decode-fla,decode-flashinfer --csv",
    "show-contest-incomplete.txt": "show 20261121-185458 --suite contest",
    "show-unknown.txt": "show 20251121",
}

COMPARED = {
    "compare-two-cards.txt": "compare 20261121-181852 20261121-185458",
    "compare-defaults.txt": "compare default-1 default-2 default-3",
    "compare-defaults.csv": "compare default-1 default-2 --csv",
    "compare-defaults-raw.txt": "compare default-1 default-2 --raw --margin 0.01",
    "compare-defaults.json": "compare default-1 default-2 --json",
    "compare-plain-and-default.txt": "compare plain-1 default-1",
    "compare-dispatch-qk4-and-qk16.txt": "compare 20261122-003003 dispatch-qk16 --rows label,B --cols heads",
    "compare-two-in-a-cell.txt": "compare plain-1 default-1 --rows kernel --cols run",
    "compare-sweeps.txt": "compare sweep-joint sweep-batches --filter B=1",
    "compare-clocks.txt": "compare clocks --cols kernel",
    "compare-by-batch.txt": "compare 20261122-024054 --rows label --cols B",
    "compare-kernels.txt": "compare 20261121-185458 --cols label --filter label=decode-fla,decode-v4,decode-v6",
    "compare-kernels.json": "compare default-1 --cols label --filter label=decode-fla,decode-v4 --json",
    "compare-markdown.md": "compare default-1 default-2 --markdown --filter B=1",
    "compare-published.txt": "compare 20261121-185458 published/b200",
    "compare-published.csv": "compare plain-1 published/b200 published/rtx3090 --csv",
    "compare-published-alone.txt": "compare published/rtx3090 published/b200",
    "compare-gate-passed.txt": "compare default-1 default-3 --fail-on slower:20% --strict",
    "compare-gate-failed.txt": "compare 20261121-181852 20261121-185458 --fail-on slower:1%",
    "compare-gate-unclear.txt": "compare default-1 default-2 --fail-on slower:0.5% --strict",
    "compare-unknown-key.txt": "compare plain-1 default-1 --rows colour",
}

FOLLOWED = {
    "history-v4.txt": "history decode-v4",
    "history-v4.json": "history decode-v4 --json",
    "history-v4-batches.txt": "history decode-v4 --shape B=1,8,64",
    "history-v4-batches.csv": "history decode-v4 --shape B=1,8,64 --csv",
    "history-compiled.txt": "history decode-compiled --shape B=8",
    "history-baseline.txt": "history decode-fla --margin 0.005",
    "history-triton.txt": "history decode-triton",
    "history-v9.txt": "history decode-v9 --shape B=1,16",
    "history-v9-qk16.txt": "history decode-v9 --shape heads=qk16_v32",
    "history-unknown.txt": "history decode-v4 --shape B=3",
}

COMMANDS = {f"show-{run}.txt": f"show {run}" for run in RUNS} | SHOWN_OTHERWISE | COMPARED | FOLLOWED


@pytest.fixture(scope="module")
def read_once():
    """Every history is of the same runs, which take seconds to read."""
    return cache(load_stored_runs)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder whose `results` holds the runs that are named above, and what others published."""
    if not (EVIDENCE / RUNS[0]).is_dir():
        pytest.skip("the checkout's results are not here")
    home = tmp_path_factory.mktemp("golden")
    (home / "results").mkdir()
    for name in (*RUNS, "published"):
        (home / "results" / name).symlink_to(EVIDENCE / name)
    return home


@pytest.mark.parametrize("name", COMMANDS)
def test_it_prints_what_it_always_printed(name, home, read_once, command_line, monkeypatch):
    monkeypatch.chdir(home)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("gdnbench.analyse.runs.load_stored_runs", read_once)
    code, out, err = command_line(*COMMANDS[name].split(), columns=COLUMNS)
    printed = without_gates(out) if name.endswith(".json") else out
    printed += "".join(f"--- {what}\n{text}\n" for what, text in (("stderr", err), ("exit code", code)) if text)
    golden = GOLDEN / name
    if REWRITE:
        golden.write_text(printed)
    printed, expected = rounded(printed), rounded(golden.read_text())
    if printed != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), printed.splitlines(), str(golden.relative_to(ROOT)), COMMANDS[name], lineterm=""
        )
        pytest.fail("\n".join(lines) or "they differ in how lines end", pytrace=False)


def test_every_golden_file_is_of_a_command():
    assert {path.name for path in GOLDEN.iterdir()} == set(COMMANDS)


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
