"""The kernels of a project: where they are found, and that they come first."""

import os
import shlex
import shutil

import pytest
from faults import REPOSITORY, answer
from test_catalog_catalog import PLAIN, add_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog, own_roots
from gdnbench.errors import ExitCode, LeftOutWarning, UsageError
from gdnbench.origin import CommandOrigin, bundled_kernels
from gdnbench.project import find_project

OWN = "kernels/decode/mine/variant.py"
PATHS = "[kernels]\npaths = {}\n"
FOUND = {
    "here": ("", {OWN: ""}, ["kernels"]),
    "an op without kernels": ("", {"kernels/mine/op.py": ""}, ["kernels"]),
    "from below": ("src/deep", {OWN: ""}, ["kernels"]),
    "from within": ("kernels/decode/mine", {OWN: ""}, ["kernels"]),
    "the nearest": ("sub/deep", {OWN: "", f"sub/{OWN}": ""}, ["sub/kernels"]),
    "in no repository's root": ("sub", {OWN: "", "sub/.git": ""}, []),
    "in its repository's root": ("sub/deep", {OWN: "", f"sub/{OWN}": "", "sub/.git": ""}, ["sub/kernels"]),
    "nothing that declares": ("", {"kernels/README.md": "", "kernels/decode/variant.py": ""}, []),
    "the file says": ("src", {"gdnbench.toml": PATHS.format(["a/b", "../other", "a/../a/b"])}, ["a/b", "../other"]),
    "the file before the folder": ("", {OWN: "", "gdnbench.toml": PATHS.format(["a"])}, ["a"]),
    "the file says none": ("sub", {OWN: "", "sub/gdnbench.toml": PATHS.format([])}, []),
    "a file of targets": ("", {OWN: "", "gdnbench.toml": "[targets.lab]\nkind = 'local'\n"}, ["kernels"]),
    "a file of targets, above": ("sub", {OWN: "", "sub/gdnbench.toml": "targets = {}\n"}, ["kernels"]),
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder, the working folder."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


@pytest.mark.parametrize("case", FOUND)
def test_where_a_project_has_its_kernels(home, monkeypatch, case):
    here, files, roots = FOUND[case]
    write(home, files)
    (home / here).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(home / here)
    assert default_roots() == (bundled_kernels(), *((home / root).resolve() for root in roots))
    assert own_roots() == default_roots()[1:]


def test_what_everybody_may_write_is_read_by_who_works_in_it_alone(home, monkeypatch):
    write(home, {OWN: ""})
    home.chmod(0o777)
    assert find_project().roots == (home / "kernels",)
    monkeypatch.chdir(home / "kernels")
    assert find_project() is None


def test_the_bundled_kernels_are_no_project_and_come_once(home, monkeypatch):
    write(home, {"gdnbench.toml": PATHS.format([str(bundled_kernels()), "mine"])})
    monkeypatch.setenv("GDNBENCH_KERNELS", os.pathsep.join(map(str, (bundled_kernels(), home / "mine"))))
    assert default_roots() == (bundled_kernels(), home / "mine")
    monkeypatch.chdir(REPOSITORY / "kernels" / "decode")
    monkeypatch.delenv("GDNBENCH_KERNELS")
    assert (default_roots(), own_roots()) == ((bundled_kernels(),), ())


def test_the_kernels_of_another_gdnbench_are_left_out_with_a_warning(home):
    write(home, {OWN: "", "kernels/source-hashes.csv": ""})
    with pytest.warns(LeftOutWarning, match=f"{home}/kernels is of another gdnbench"):
        assert find_project() is None


def test_a_folder_that_was_removed_has_no_project(home):
    home.rmdir()
    assert find_project() is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PATHS.format("'mine'"), "kernels: paths: Expected `array`, got `str`"),
        (PATHS.format([3]), "kernels: paths[0]: Expected `str`, got `int`"),
        (PATHS.format([""]), "kernels: paths[0]: Expected `str` of length >= 1"),
        ("[kernels]\n", "kernels: Object missing required field `paths`"),
        ("[kernels]\npath = ['mine']\n", "kernels: Object "),
        ("kernels = ['mine']\n", "kernels: Expected `object`, got `array`"),
        ("[kernel]\npaths = ['mine']\n[kernels]\n", "kernel: there is no such key"),
        ("[kernels\n", "gdnbench.toml: Expected ']'"),
    ],
)
def test_a_file_that_does_not_fit_is_told_by_file_and_key(home, text, told):
    write(home, {OWN: "", "gdnbench.toml": text})
    with pytest.raises(UsageError) as caught:
        load_catalog()
    assert caught.value.message.startswith(str(home / "gdnbench.toml"))
    assert told in caught.value.message
    assert caught.value.hint


def test_a_path_that_is_no_folder_is_told_by_file_and_key_and_stops_nothing(home):
    add_kernel(home / "kernels")
    write(home, {"gdnbench.toml": PATHS.format(["kernels", "gone"])})
    catalog = load_catalog()
    assert [entry.kernel.name for entry in catalog.meant] == ["decode-mine"]
    assert [each.folder for each in catalog.broken] == [home / "gone"]
    assert f"paths of [kernels] in {home}/gdnbench.toml" in catalog.broken[0].reason


@pytest.fixture
def project(home):
    """A project with an op of its own, `gemm`, and a kernel of a bundled one, `decode-mine`."""
    shutil.copytree(REPOSITORY / "tests" / "toys" / "gemm", home / "kernels" / "gemm")
    add_kernel(home / "kernels")
    return home


GEMM = {"gemm-cuda", "gemm-split", "gemm-torch", "gemm-triton", "gemm-tuned"}
MEANT = {
    "list": {*GEMM, "decode-mine"},
    "list all": {*GEMM, "decode-mine"},
    "list --op decode": {"decode-mine"},
    "list decode-v9 decode-mine": {"decode-v9", "decode-mine"},
    "run --dry-run --gpu cpu --op decode": {"decode-mine", "decode-reference"},
    "run --dry-run --gpu cpu decode-reference": {"decode-reference"},
    "run --dry-run --gpu cpu --kernel all --op gemm": {"gemm-torch", "gemm-tuned"},
    "run --dry-run --gpu cpu --op verify": {"verify-reference"},
    "run --dry-run --gpu cpu --library": {"decode-mine", "decode-reference", "decode-compiled"},
}


def names_in(document):
    rows = document if isinstance(document, list) else document["kernels"]
    return [row if isinstance(row, str) else row["kernel"] for row in rows]


@pytest.mark.parametrize("words", MEANT)
def test_the_projects_kernels_are_meant_where_none_is_named(project, words):
    done = answer(*words.split(), "--json", folder=project)
    assert done.code == 0, done.err
    assert set(names_in(done.document)) == MEANT[words]
    assert "are meant" not in done.err or "--library" in words


def test_the_library_is_listed_behind_ones_own_kernels(project):
    names = names_in(answer("list", "--library", "--json", folder=project).document)
    assert set(names[:6]) == {*GEMM, "decode-mine"}
    library = load_catalog([bundled_kernels()])
    assert len(names) - 6 == len(library.entries)
    text = answer("list", folder=project).out
    assert f"{len(library.entries)} bundled kernels of {len(library.ops)} ops: gdnbench list --library\n" in text
    assert "gdnbench list --op decode --library\n" in answer("list", "--op", "decode", folder=project).out
    assert "\nbundled\n" in answer("list", "--library", folder=project).out


def test_of_several_ops_one_is_to_be_named_and_the_next_command_names_it(project):
    refused = answer("run", "--dry-run", folder=project)
    assert refused.code == ExitCode.USAGE
    assert "say which with --op: gemm or decode" in refused.err
    told = answer("runs", folder=project).out.splitlines()[-1].removeprefix("next: gdnbench ")
    assert answer(*shlex.split(told), "--dry-run", "--gpu", "cpu", folder=project).code == 0


def test_a_project_whose_kernels_do_not_load_does_not_run_others(home):
    write(home, {OWN: "def x(:\n"})
    done = answer("run", "--dry-run", folder=home)
    assert done.code == ExitCode.USAGE
    assert "the project has none that loads" in done.err
    assert "variant.py:1" in answer("run", "--dry-run", "--op", "decode", folder=home).err
    assert "next: gdnbench list --library\n" in answer("list", folder=home).out


@pytest.mark.parametrize("folder", ["v4", "fast"])
def test_a_name_that_is_taken_is_told_and_the_bundled_kernel_is_not_run_in_its_stead(home, folder):
    add_kernel(home / "kernels", folder, variant=PLAIN.replace("decode-mine", "decode-v4"))
    done = answer("run", "decode-v4", "--dry-run", folder=home)
    assert done.code != 0
    assert f"decode-v4 is taken by the bundled kernel in {bundled_kernels()}/decode/v4" in " ".join(done.err.split())
    assert answer("list", "decode-v4", "--json", folder=home).document[0]["folder"].startswith(str(bundled_kernels()))


def test_an_op_whose_name_is_taken_is_broken(home):
    shutil.copytree(bundled_kernels() / "verify", home / "kernels" / "verify")
    catalog = load_catalog()
    assert [(each.name, each.folder) for each in catalog.broken] == [("verify", home / "kernels" / "verify")]
    assert f"taken by the op in {bundled_kernels()}/verify" in catalog.broken[0].reason
    assert catalog.meant == ()


def test_a_job_has_the_project_that_it_was_sent_from(project, monkeypatch):
    sent = CommandOrigin(roots=(str(bundled_kernels()), str(project / "kernels")), project=True)
    [variable] = sent.variables.items()
    monkeypatch.setenv(*variable)
    monkeypatch.chdir(REPOSITORY)
    assert load_catalog().meant_ops == ("gemm", "decode")
    monkeypatch.chdir(project)
    for roots, has_project, is_meant in ((sent.roots, False, True), ((sent.roots[0], str(REPOSITORY)), True, False)):
        [variable] = CommandOrigin(roots=roots, project=has_project).variables.items()
        monkeypatch.setenv(*variable)
        assert ("verify" in load_catalog().meant_ops) is is_meant
