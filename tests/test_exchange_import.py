"""Solutions of others become kernels; no code of theirs runs on the way, and no name of theirs leads anywhere."""

import json
from importlib.util import find_spec

import pytest
from exchange_data import PARTS, SOLUTION, definition, solution, tree, write, write_op
from faults import Gdnbench

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode

KERNEL = "rms-plain-torch"
CPU = ("--gpu", "cpu", "--json")


@pytest.fixture
def bench(tmp_path):
    write_op(tmp_path / "kernels")
    return Gdnbench(tmp_path, (tmp_path / "kernels",), in_process=True)


@pytest.fixture
def take(bench, tmp_path):
    """Imports a Solution with the Definition, or other documents."""

    def call(*options, **documents):
        paths = write(tmp_path / "files", **({"definition": definition()} | documents))
        op = () if "--op" in options else ("--op", "rms")
        return bench("exchange", "import", *paths, *op, "--to", str(tmp_path / "kernels"), "--json", *options)

    return call


def test_a_kernel_verifies_and_runs_at_once(bench, take, tmp_path):
    done = take(solution=solution())
    assert done.code == 0, done.err
    assert json.loads(done.out)["kernels"] == [KERNEL]
    assert not load_catalog([tmp_path / "kernels"]).broken
    verified = bench("verify", KERNEL, *CPU)
    assert verified.code == 0, verified.err
    assert {gate["gate"].partition(" ")[0] for gate in json.loads(verified.out)["gates"]} >= {"y", "sums"}
    ran = bench.run(KERNEL, "--gpu", "cpu", "--rounds", "3", "--samples", "3", "-q")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("sources", "spec", "status"),
    [
        ({"main.py": "def run(x, weight, eps):\n    return {'sums': x.float().sum(-1), 'y': x * 0}\n"},
         {"entry_point": "main.py::run", "destination_passing_style": False}, "wrong-numbers"),
        ({"main.py": "def run(x, weight, eps):\n    return x\n"},
         {"entry_point": "main.py::run", "destination_passing_style": False}, "failed"),
        ({"main.py": "def run(x, weight, eps, y, sums):\n    pass\n"}, {"entry_point": "main.py::run"},
         "unwritten-output"),
        ({"main.py": "def walk():\n    pass\n"}, {"entry_point": "main.py::run"}, "build-failed"),
        ({"main.py": "raise RuntimeError('at import')\n"}, {"entry_point": "main.py::run"}, "broken"),
        ({"a.cu": "int run();"}, {"language": "cuda", "entry_point": "a.cu::run", "target_hardware": ["cuda"]},
         "missing"),
        (None, {"target_hardware": ["cuda"]}, "unsupported"),
        (None, {"dependencies": ["no_such_module_at_all"]}, "missing"),
        (None, {"language": "tilelang"}, "missing"),
    ],
    ids=["zeros", "one-output", "unwritten", "no-entry", "raises", "cuda", "gpu-only", "needs", "tilelang"],
)  # fmt: skip
def test_a_solution_that_does_not_do_it_gets_the_status_that_says_so(bench, take, sources, spec, status):
    module = {"cuda": "tvm_ffi", "tilelang": "tilelang"}.get(spec.get("language"))
    if status == "missing" and module and find_spec(module):
        pytest.skip(f"{module} is installed, and not missing")
    done = take(solution=solution(sources, **spec))
    assert done.code == 0, done.err
    found = json.loads(bench("verify", KERNEL, *CPU).out)
    assert {row["status"] for row in found["gates"]} == {status}, found


CODE = '"""); import os; os.mkdir("taken"); ("""'


def test_code_in_a_file_runs_only_where_kernels_do(bench, take, tmp_path, monkeypatch):
    """Not at import, not when the catalog loads what was made, not when it is listed."""
    monkeypatch.chdir(tmp_path)
    touch = f"import pathlib\npathlib.Path({str(tmp_path / 'taken')!r}).touch()\n"
    document = definition(reference=touch + definition()["reference"], description=CODE)
    sources = {"src/main.py": touch + SOLUTION, "src/parts.py": PARTS}
    made = take(definition=document, solution=solution(sources) | {"description": CODE})
    assert made.code == 0, made.err
    listed = bench("list", "--json")
    assert {each["kernel"]: each["status"] for each in json.loads(listed.out)}[KERNEL] == "ok"
    assert not (tmp_path / "taken").exists()
    assert load_catalog([tmp_path / "kernels"]).entries[KERNEL].idea == CODE
    assert bench("verify", KERNEL, *CPU).code == 0
    assert (tmp_path / "taken").exists()


@pytest.mark.parametrize(
    "path", ["../main.py", "/tmp/main.py", "a/../../main.py", "a//main.py", "./main.py", "a\\main.py", "a\nb.py", " ",
             "a" * 300, "__pycache__/main.py", ".", ".."]
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(take, tmp_path, path):
    sources = {path: SOLUTION, "src/parts.py": PARTS}
    done = take(solution=solution(sources, entry_point=f"{path}::run"))
    assert done.code == ExitCode.USAGE
    assert not list((tmp_path / "kernels").glob("*/*/variant.py"))


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a b", "..", CODE, "é" * 200, "x/y", "-rf", ".hidden", "con\n"])
def test_whatever_a_thing_is_called_it_stays_in_the_folder(take, tmp_path, name):
    done = take(definition=definition(name=name), solution=solution() | {"name": name, "definition": name})
    assert {path.name for path in tmp_path.iterdir()} <= {"files", "kernels", "results", "tmp"}
    assert done.code in {0, ExitCode.USAGE, ExitCode.BUILD}, done.err
    if done.code == 0:
        catalog = load_catalog([tmp_path / "kernels"])
        assert not catalog.broken
        (entry,) = catalog.entries.values()
        assert entry.folder.parent == tmp_path / "kernels" / "rms"


@pytest.mark.parametrize("length", [60, 79, 80, 81, 82, 200])
def test_a_solution_is_imported_whatever_the_length_of_its_name(take, tmp_path, length):
    alike = {last: solution() | {"name": f"{'x' * (length - 1)}{last}"} for last in "ab"}
    done = take(**alike)
    assert done.code == 0, done.err
    assert len(list((tmp_path / "kernels").glob("*/*/variant.py"))) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reference": "def walk(): pass"}, "no function run"),
        ({"reference": "def run(:"}, "not Python"),
        ({"axes": {"num_rows": {"type": "var"}}}, "which is not an axis"),
        ({"axes": {"num_rows": {"type": "var"}, "hidden_size": {"type": "const"}}}, "has no value"),
        ({"axes": {"num_rows": {"type": "var"}, "hidden_size": {"type": "const", "value": -1}}}, "value"),
        ({"outputs": {"x": {"shape": [], "dtype": "float32"}}}, "an input and an output"),
        ({"outputs": {"y y": {"shape": [], "dtype": "float32"}}}, "cannot be an argument"),
        ({"outputs": {"lambda": {"shape": [], "dtype": "float32"}}}, "cannot be an argument"),
        ({"inputs": None}, "inputs"),
        ({"name": ""}, "name"),
    ],
    ids=str,
)
def test_a_definition_that_does_not_fit_is_refused_in_words(take, tmp_path, change, said):
    done = take(definition=definition(**change), solution=solution())
    assert done.code == ExitCode.USAGE
    assert "".join(said.split()) in "".join(done.err.split())
    assert not list((tmp_path / "kernels").glob("*/*/variant.py"))


@pytest.mark.parametrize(
    ("documents", "options", "said"),
    [
        ({"solution": solution() | {"definition": "other"}}, (), "is not among the files"),
        ({"solution": solution(entry_point="main.py")}, (), "entry_point"),
        ({"solution": solution(entry_point="none.py::run")}, (), "is not a source"),
        ({}, (), "no Solution"),
        ({"solution": solution(), "more": solution() | {"name": "more"}}, ("--name", "x"), "there are 2 Solutions"),
        ({"solution": solution()}, ("--op", "decode"), "not those of decode"),
        ({"solution": solution()}, ("--op", "nothing"), "no op nothing"),
        ({"solution": solution()}, ("--name", "decode-v4"), "there is a kernel decode-v4"),
        ({"again": definition(op_type="other"), "solution": solution()}, (), "another Definition"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused_in_words(take, tmp_path, documents, options, said):
    before = tree(tmp_path / "kernels")
    done = take(*options, **documents)
    assert done.code == ExitCode.USAGE, done.err
    assert tree(tmp_path / "kernels") == before
    assert "".join(said.split()) in "".join(done.err.split())
