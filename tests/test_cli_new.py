"""`gdnbench new` as a newcomer meets it: one command, and the kernel lists, verifies and runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from faults import REPOSITORY, Gdnbench, python_path

from gdnbench.errors import ExitCode

pytestmark = pytest.mark.slow

QUICK = ("--gpu", "cpu", "--shape", "B=1", "--shape", "heads=qk2_v4", "--json")


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    """Runs `gdnbench new ARGUMENTS` in this process and an empty folder; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "new")


def test_what_the_catalog_knows_needs_no_export(run, tmp_path, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", f"{tmp_path}/one")
    code, out, _ = run("decode-v99", "--from", "decode-v4b", "--to", "one")
    assert code == 0
    assert "export" not in out
    assert "next: gdnbench run --kernel decode-v4b,decode-v99\n" in out
    assert (
        f"""next: export GDNBENCH_KERNELS="$GDNBENCH_KERNELS":'{tmp_path}/a b'\n"""
        in run("decode-v98", "--from", "decode-v99", "--to", "a b")[1]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "NAME"),
        (("decode-v99",), "say which with --from: decode-"),
        (("decode-v99", "--from", "decode-v44"), "did you mean decode-v4"),
        (("decode-v99", "--from", "decode-*"), "name it in full"),
        (("decode-v99", "--from", "decode-v4:WARPS=3"), "WARPS=3"),
        (("v99", "--from", "decode-v4"), "begins with decode-"),
        (("decode-V9", "--from", "decode-v4"), "lower-case"),
        (("decode-v1", "--from", "decode-v4"), "a kernel in"),
        (("decode-v4b", "--from", "decode-v4"), "a preset of decode-v4"),
        (("decode-v99", "--from", "decode-v4", "--to", f"{REPOSITORY}/kernels/decode"), f"--to {REPOSITORY}/kernels"),
        (("decode-v99", "--from", "decode-v4", "--to", f"{REPOSITORY}/LICENSE/x"), "cannot write"),
        (("decode-v99", "--op", "rms-norm"), "--op makes an op"),
        (("--op", "rms-norm", "--from", "decode-v4"), "does not go with --from"),
        (("--op", "RMS"), "lower-case"),
        (("--op", "all"), "choose another"),
        (("--op", "a" * 78), "choose a shorter one"),
        (("--op", "decode"), "an op in"),
        (("--op", "decode-v4b"), "a kernel in"),
        (("--op", "rms-norm", "--out", f"{REPOSITORY}/kernels/decode"), f"--to {REPOSITORY}/kernels"),
        (("--op", "rms-norm", "--out", f"{REPOSITORY}/LICENSE/x"), "cannot write"),
    ],
    ids=str,
)
def test_a_mistake_is_a_usage_error_with_a_hint_and_leaves_nothing(run, tmp_path, arguments, said):
    before = sorted((REPOSITORY / "kernels" / "decode").iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "Traceback" not in err
    assert "".join(said.split()) in "".join(err.split())
    assert list(tmp_path.iterdir()) == []
    assert sorted((REPOSITORY / "kernels" / "decode").iterdir()) == before


@pytest.mark.parametrize("origin", ["decode-reference", "decode-triton:BV=32"])
def test_a_new_kernel_lists_and_verifies_at_once(tmp_path, origin):
    gdnbench = Gdnbench(tmp_path, roots=(tmp_path / "mine",), in_process=True)
    (tmp_path / "mine").mkdir()
    made = gdnbench("new", "decode-v99", "--from", origin, "--to", str(tmp_path / "mine"), "--json")
    assert made.code == 0, made.err
    listed = {each["kernel"]: each for each in json.loads(gdnbench("list", "--json").out)}
    assert listed["decode-v99"]["status"] == "ok"
    assert listed["decode-v99"]["folder"] == json.loads(made.out)["folder"]
    verified = gdnbench("verify", "decode-v99", *QUICK)
    assert verified.code == 0, verified.err
    gates = json.loads(verified.out)["gates"]
    assert {gate["label"] for gate in gates} == {"decode-v99"}
    assert all(gate["passed"] for gate in gates)


def test_a_new_op_lists_lints_and_verifies_at_once_and_its_kernels_can_be_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gdnbench = Gdnbench(tmp_path, roots=(tmp_path / "kernels",), in_process=True)
    made = gdnbench("new", "--op", "rms-norm")
    assert made.code == 0, made.err
    files = made.out.partition("\n\n")[0].splitlines()
    assert {"kernels/rms-norm/op.py", "kernels/rms-norm/numerics.py"} <= set(files)
    assert sorted(files) == sorted(str(path) for path in Path("kernels").rglob("*") if path.is_file())
    assert f"$ gdnbench new --op rms-norm\n{made.out}```\n" in (REPOSITORY / "CONTRIBUTING.md").read_text()
    assert gdnbench("new", "rms-norm-mine", "--from", "rms-norm-cuda").code == 0
    listed = json.loads(gdnbench("list", "--op", "rms-norm", "--json").out)
    languages = {
        "rms-norm-cuda": "cuda",
        "rms-norm-mine": "cuda",
        "rms-norm-torch": "torch",
        "rms-norm-triton": "triton",
    }
    assert {each["kernel"]: each.get("language") for each in listed} == languages
    verified = gdnbench("verify", "--op", "rms-norm", "--gpu", "cpu", "--json")
    assert verified.code == 0, verified.err
    gates = json.loads(verified.out)["gates"]
    assert {(gate["label"], gate["M"], gate["N"]) for gate in gates} >= {(name, 1, 256) for name in languages}
    assert {gate["status"] for gate in gates} == {"ok"}
    assert gdnbench("new", "--op", "rms-norm").code == ExitCode.USAGE
    assert sorted(path.name for path in Path("kernels").iterdir()) == ["rms-norm"]


def test_the_smallest_op_of_the_guide_verifies(tmp_path):
    told = (REPOSITORY / "CONTRIBUTING.md").read_text()
    files = re.findall(r"^```\w+\n(?:#|//) (kernels/twice/\S+)\n(.*?)^```$", told, re.MULTILINE | re.DOTALL)
    assert len(files) == 4
    for name, content in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    bench = Gdnbench(tmp_path, roots=(tmp_path / "kernels",), in_process=True)
    verified = bench("verify", "--op", "twice", "--gpu", "cpu", "--json")
    assert {gate["status"] for gate in json.loads(verified.out)["gates"]} == {"ok"}, verified.err


def test_in_a_checkout_it_goes_beside_the_original(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("gdnbench", "kernels"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=ignored)

    def gdnbench(*words):
        command = [sys.executable, "-m", "gdnbench", *words]
        environment = {**os.environ, "PYTHONPATH": python_path(tmp_path)}
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    made = gdnbench("new", "decode-mine", "--from", "decode-v4")
    told = (REPOSITORY / "CONTRIBUTING.md").read_text()
    assert f"$ gdnbench new decode-mine --from decode-v4\n{made}```\n" in told
    assert (tmp_path / "kernels" / "decode" / "mine" / "variant.py").read_text() in told
    assert {"decode-mine", "decode-v4"} <= {each["kernel"] for each in json.loads(gdnbench("list", "--json"))}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel in an environment of its own, beside the libraries of this Python; gives what runs gdnbench there."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    python = folder / "venv" / "bin" / "python"

    def run_python(*words):
        subprocess.run([sys.executable, "-m", *map(str, words)], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)

    run_python("hatchling", "build", "-t", "wheel", "-d", folder)
    run_python("venv", "--without-pip", folder / "venv")
    run_python("pip", "--python", python, "install", "--no-deps", "--no-compile", "--no-index", *folder.glob("*.whl"))
    [site] = folder.glob("venv/lib/*/site-packages")
    (site / "libraries.pth").write_text("\n".join(path for path in sys.path if path != str(REPOSITORY)))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def invoke(*words, project):
        command = [str(python.with_name("gdnbench")), *words]
        return subprocess.run(command, env=variables, cwd=project, capture_output=True, text=True, check=False)

    return invoke


def test_from_a_wheel_it_makes_an_empty_folder_a_project_that_lists_and_runs(installed, tmp_path):
    def gdnbench(*words, project=tmp_path):
        done = installed(*words, project=project)
        assert done.returncode == 0, done.stderr
        return done.stdout

    made = gdnbench("new", "decode-mine", "--from", "decode-reference")
    assert made.startswith("kernels/decode/mine/kernel.py\n")
    assert "export" not in made
    [listed] = json.loads(gdnbench("list", "--json", project=tmp_path / "kernels" / "decode"))
    assert listed["kernel"] == "decode-mine"
    library = {each["kernel"]: each["folder"] for each in json.loads(gdnbench("list", "--library", "--json"))}
    assert library["decode-v4"].endswith("/site-packages/gdnbench/_kernels/decode/v4")
    measured = json.loads(gdnbench("run", *QUICK, "--rounds", "3", "--samples", "2"))["measurements"]
    assert {"decode-mine", "decode-reference"} <= {row["label"] for row in measured if row["time_us"]}
