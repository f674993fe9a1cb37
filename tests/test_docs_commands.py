"""Every command of README and docs runs in a fresh clone on a machine without a GPU, or says that it needs one."""

import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from gdnbench.errors import ExitCode, UsageError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [ROOT / "profiles" / "README.md", *sorted((ROOT / "kernels").glob("**/README.md"))]
NEEDS_GPU = {"step", "proton", "ncu"}
PLANNED = "the plan is made"
MAY_FAIL = ("--fail-on",)  # a gate's answer is an answer
GROUPS = {"exchange", "ledger"}
OF_ONES_OWN = {"show", "history", "compare", "report", "runs"}  # runs by no name, a GPU's, or one of the reader's
PLACEHOLDERS = re.compile(r"…|\b(FILE|ID|JOB|KERNEL|RUN|REV|HOST|MODEL|A B|X)\b|/path/to")
COMMAND = re.compile(r"(?:\$ )?(?P<set>(?:[A-Z_]+=\S+ )*)gdnbench (?P<rest>[^#]*?)\s*(?:  #.*)?")
ELSEWHERE = re.compile(r"\b(a|b|h200|b200)\.ncu-rep\b")  # reports that a reader has


def commands():
    """Page, line, variables and words of each command, of blocks and of the text between them."""
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL)
        lines = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
        lines += re.findall(r"`([^`\n]*\bgdnbench [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for line in lines:
            found = COMMAND.fullmatch(line.strip())
            words = shlex.split(found["rest"].replace("\\|", "|").partition("|")[0]) if found else []
            if words and not PLACEHOLDERS.search(line) and not words[-1].endswith(".") and not _is_mention(words):
                yield page.name, line, found["set"].split(), words


def _is_mention(words):
    """A verb's name, with or without an option that is talked about: no command."""
    if " ".join(words[:2]) in {"exchange export", "exchange import", "ledger add", "ledger restore"}:
        return all(word.startswith("-") for word in words[2:])
    return words[0] not in {"list", "show", "runs"} and all(word.startswith("-") for word in words[1:])


COMMANDS = {" ".join((page, *words)): (variables, words) for page, _, variables, words in commands()}
EVERY_STEP = "decode-v*"
SLOW = {  # and as the tests of charts, report, rungs, verify --ready, inspect and run of functions have them
    "commands.md report main sweep-joint -o report.html",
    "reporting.md report results/evidence/*-main",
    "verifying.md verify decode-v9 --ready --out results/evidence",
    "verifying.md verify test-spilling --ready",
    "commands.md inspect decode-v* --fail-on spills,trips>8",
    "README.md inspect decode-v*",
    "commands.md inspect decode-triton-one --diff decode-triton --schedule",
    "profiling.md inspect decode-triton-one --diff decode-triton --schedule --arch sm_90",
    "claims.md inspect decode-rungs:KEY_BYTES=2 --diff decode-rungs",
    "commands.md show decode-processes --chart roofline -o roofline.png",
    "commands.md inspect decode-v4 --diff git:HEAD~1 --sass",
    "commands.md verify decode-v9 --ready",
    "decode-on-hopper.md inspect decode-v7 --sass",
    "profiling.md inspect fp8-gemm-pos-v2 --arch sm_90 --loops",
    "reporting.md report main hopper",
}


def cases():
    """Their names; of commands of one verb that differ only in values `make test` runs the first."""
    forms = set()
    for name, (variables, words) in COMMANDS.items():
        options = {word.partition("=")[0] for word in words if word.startswith("-")}
        values = [word for word in words if not word.startswith("-")]
        form = (*values[: 2 if words[0] in GROUPS else 1], min(len(values), 3), *sorted(options), bool(variables))
        yield pytest.param(name, marks=pytest.mark.deep if form in forms or name in SLOW else ())
        forms.add(form)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone as a newcomer has it, of what is committed."""
    folder = tmp_path_factory.mktemp("clone") / "gdnbench"
    done = subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout")
    targets = '[targets.lab]\nkind = "local"\ngpus = ["h200"]\n[targets.cloud]\nkind = "local"\n'
    (folder / "config" / "gdnbench").mkdir(parents=True)
    (folder / "config" / "gdnbench" / "gdnbench.toml").write_text(targets)
    return folder


@pytest.fixture
def call(command_line, clone, monkeypatch):
    def plan(*_args, **_more):
        raise UsageError(PLANNED)

    monkeypatch.chdir(clone)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(clone / "config"))
    for module in ("machine.gpus", "profile.process", "diagnose.gather", "measure.start"):
        monkeypatch.setattr(f"gdnbench.{module}.list_gpus", lambda *_: ())
    # A verb is imported when first called: imported from now on, it would have the stand-in in every later test.
    for module in ("verify_states", "compare_revisions"):
        import_module(f"gdnbench.verbs.{module}")
    monkeypatch.setattr("gdnbench.remote.forward.Forwarded.execute", plan)
    monkeypatch.setattr("gdnbench.score.run.begin_session", plan)
    monkeypatch.setattr("gdnbench.measure.start.begin_session", plan)
    monkeypatch.setattr("gdnbench.verify.preflight.verify_variants", plan)
    for name in ("verify_sequences", "follow_variants"):
        monkeypatch.setattr(f"gdnbench.verbs.verify_states.{name}", plan)
    return command_line


def _files(words):
    """Globs as a shell would put them."""
    for word in words:
        found = sorted(map(str, Path().glob(word))) if "*" in word and "/" in word else []
        yield from found or [word]


def test_there_are_commands_to_try():
    assert len(COMMANDS) > 50


@pytest.mark.parametrize("name", [case for case in cases() if " doctor" not in case.values[0]])
def test_a_documented_command_runs(call, clone, monkeypatch, tmp_path, name):
    variables, words = COMMANDS[name]
    for variable in variables:
        monkeypatch.setenv(*variable.split("=", 1))
    words = ["decode-v[49]" if word == EVERY_STEP else word for word in _files(words)]  # two do for them all
    if words[0] == "new":
        words += [] if "--to" in words else ["--to", str(tmp_path)]
    if words[0] in {"verify", "run", "inspect", "score"} and any(
        name in " ".join(words) for name in ("decode-mine", "decode-theirs", "decode-next", "prefill-mine")
    ):
        pytest.skip("is of the kernel that the reader made, or imported")
    code, out, err = call(*words)
    said = " ".join(err.split())
    if "needs nvidia-cutlass-dsl" in out:
        pytest.skip("CuTe DSL is not here: pip install 'gdnbench[cute]'")
    if ELSEWHERE.search(name):
        assert "no such file" in said or "cannot be read" in said
    elif "no runs in results" in said:
        assert (code, words[0] in OF_ONES_OWN) == (ExitCode.USAGE, True), err
        assert "gdnbench run --kernel all" in said
    elif (
        "pip install 'gdnbench[cut" in " ".join(out.split()) and "--dry-run" not in words
    ):  # which the tests go without
        assert code == ExitCode.BUILD, err
    elif words[0] in {"run", "sweep", "score", "verify"} and "--dry-run" not in words:
        told = (
            "no second clock without a GPU", "No GPU here", "cannot run here: it needs a GPU",
            "compute-sanitizer needs a GPU", "nothing requested can be measured here",
        )  # fmt: skip
        needs = any(words in said for words in told)
        assert (code == ExitCode.ENVIRONMENT and needs) or PLANNED in said, err
    elif words[0] in NEEDS_GPU and "--import" not in words:
        assert code == ExitCode.ENVIRONMENT, err
        assert "GPU" in said
    elif any(option in words for option in MAY_FAIL):
        assert code in {ExitCode.OK, ExitCode.REGRESSION, *([ExitCode.NOISY] if "--strict" in words else [])}, err
        assert out
    else:
        assert code == ExitCode.OK, err
        assert out or "the same code" in said or "drawn into" in said
