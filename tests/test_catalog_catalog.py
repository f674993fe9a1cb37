"""What is found, what is broken, and that the one does not stop the other."""

import os
import shutil
from pathlib import Path

import pytest
from bundled import CATALOG

from gdnbench.catalog.catalog import default_roots, load_catalog, load_catalog_of
from gdnbench.model.kernel import CudaKernel, CuteKernel, CutileKernel, DispatchKernel, TorchKernel, TritonKernel

BUNDLED = default_roots()[0]
FOLDERS = {f"{path.parts[-3]}/{path.parts[-2]}": path.parent for path in BUNDLED.glob("*/*/variant.py")}
BUNDLED_NAMES = set(CATALOG.entries)
SOURCES = {".cu": CudaKernel, ".py": (TritonKernel, TorchKernel, CuteKernel, CutileKernel), ".toml": DispatchKernel}


TORCH_KERNEL = (
    '"""An idea.\n\nAnd more."""\nfrom gdnbench import TorchKernel\nkernel = TorchKernel(name="decode-mine"{})\n'
)
PLAIN = TORCH_KERNEL.format("")


def add_kernel(root, folder="mine", *, variant=PLAIN, source="kernel.py", op="decode"):
    kernel = root / op / folder
    kernel.mkdir(parents=True)
    (kernel / "variant.py").write_text(variant)
    if source:
        (kernel / source).write_text("")
    return kernel


def load(*more):
    return load_catalog([BUNDLED, *more])


def test_every_bundled_kernel_loads_in_the_language_of_its_source_and_says_its_idea():
    catalog = load()
    assert catalog.broken == ()
    assert sorted(entry.folder for entry in catalog.entries.values()) == sorted(FOLDERS.values())
    for name, entry in catalog.entries.items():
        assert isinstance(entry.kernel, SOURCES[entry.source.suffix]), name
        assert entry.idea.endswith(".")
        assert entry.source.is_file()
        assert name.startswith(f"{entry.op.name}-")


@pytest.mark.parametrize("name", CATALOG.ops)
def test_an_op_names_kernels_that_exist(name):
    catalog = load()
    op = catalog.ops[name]
    assert {*op.baselines, *filter(None, [op.floor])} <= set(catalog.entries)
    assert not op.floor or catalog.entries[op.floor].kernel.floor == "copy"
    assert catalog.entries[op.baselines[-1]].missing() is None


def test_a_later_root_adds_kernels_without_an_op_of_its_own(tmp_path):
    add_kernel(tmp_path)
    entry = load(tmp_path).entries["decode-mine"]
    assert entry.op.name == "decode"
    assert entry.op_folder == BUNDLED / "decode"
    assert entry.idea == "An idea."


def test_a_worker_loads_one_op_of_all_roots_and_runs_no_other_declaration(tmp_path):
    add_kernel(tmp_path)
    add_kernel(tmp_path, op="prefill", variant="raise SystemExit('run')")
    one = load_catalog([BUNDLED, tmp_path], only="decode")
    whole = load(tmp_path)
    assert (list(one.ops), one.broken) == (["decode"], ())
    assert list(one.entries.values()) == list(whole.of_op("decode"))
    assert [each.name for each in whole.broken] == ["prefill/mine"]


def test_kernels_whose_names_tell_their_op_cost_no_other_op(tmp_path, monkeypatch):
    add_kernel(tmp_path)
    add_kernel(tmp_path, "pool", variant=PLAIN.replace("decode-mine", "else"), op="decode-pool")
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    assert [*load_catalog_of(["decode-mine", "decode-v4:WARPS=2"]).ops] == ["decode"]
    assert (
        [*load_catalog_of(["decode-pool-v2"]).ops] == [*load_catalog_of(["else"], "decode-pool").ops] == ["decode-pool"]
    )
    for strange in (["else"], ["decode-v4", "else"], ["decode-no"], ["decode-v4", "prefill-v3"]):
        assert load_catalog_of(strange).entries == load_catalog().entries


def test_an_op_in_a_folder_of_another_name_is_loaded_too(tmp_path):
    op = (BUNDLED / "epilogue" / "op.py").read_text().replace('name="epilogue"', 'name="other"')
    shutil.copytree(BUNDLED / "epilogue", tmp_path / "folder", ignore=lambda *_: ["op.py"])
    (tmp_path / "folder" / "op.py").write_text(op)
    assert "other" in load_catalog([BUNDLED, tmp_path], only="other").ops


def test_kernels_come_in_the_order_in_which_people_count(tmp_path):
    folders = ["mine_2", "mine_9", "mine_9_a", "mine_10", "mine_10a2", "mine_10a10"]
    for folder in sorted(folders):
        add_kernel(tmp_path, folder, variant=PLAIN.replace("mine", folder.replace("_", "-")))
    assert [entry.folder.name for entry in load(tmp_path).of_op("decode")][-len(folders) :] == folders


def test_the_environment_names_further_roots(tmp_path, monkeypatch):
    one, other = tmp_path / "one", tmp_path / "other"
    add_kernel(one)
    add_kernel(other, variant=PLAIN.replace("mine", "yours"))
    monkeypatch.setenv("GDNBENCH_KERNELS", os.pathsep.join([str(one), "", str(other)]))
    assert default_roots() == (BUNDLED, one, other)
    assert {"decode-mine", "decode-yours", "decode-v4"} <= set(load_catalog().entries)


def test_a_root_that_is_not_there_is_told_and_stops_nothing(tmp_path):
    catalog = load(tmp_path / "gone")
    assert "decode-v4" in catalog.entries
    assert "GDNBENCH_KERNELS" in catalog.broken[0].reason


BROKEN = {
    "syntax": ("def x(:\n", "variant.py:1"),
    "raises": ("x = 1\nraise RuntimeError('no such chip')\n", "variant.py:2: RuntimeError: no such chip"),
    "exits": ("import sys\nsys.exit(3)\n", "variant.py:2: SystemExit"),
    "no-module": ("import a_module_that_is_not_there\n", "a_module_that_is_not_there"),
    "sets-nothing": ("", "must set `kernel`"),
    "sets-something-else": ("kernel = 'decode-mine'\n", "must set `kernel`"),
    "default-outside-choices": (
        "from gdnbench import Param\nPARAM = Param(default=3, choices=(1, 2))\n",
        "variant.py:2: default 3",
    ),
    "preset-outside-choices": (TORCH_KERNEL.format(", presets={'decode-mine-b': {'BV': 1}}"), "no param BV"),
    "unknown-field": (TORCH_KERNEL.format(", colour='red'"), "colour"),
    "in-place-no-mapping": (TORCH_KERNEL.format(", in_place='new_state'"), "in_place: a mapping"),
    "in-place-no-output": (TORCH_KERNEL.format(", in_place={'state': 'state'}"), "state is not an output of decode"),
    "in-place-no-input": (TORCH_KERNEL.format(", in_place={'new_state': 'S'}"), "which is not an input of decode"),
    "in-place-no-text": (TORCH_KERNEL.format(", in_place={'new_state': ['S']}"), "expected mapping from text to text"),
    "in-place-other-sizes": (TORCH_KERNEL.format(", in_place={'new_state': 'q'}"), "new_state and q differ in sizes"),
    "no-source": (TORCH_KERNEL.format(", source='elsewhere.py'"), "elsewhere.py"),
    "name-of-another": (PLAIN.replace("decode-mine", "decode-v4"), "decode-v4 is taken"),
    "name-of-a-preset": (PLAIN.replace("decode-mine", "decode-v4b"), "decode-v4b is taken"),
    "preset-of-another": (TORCH_KERNEL.format(", presets={'decode-v1': {}}"), "decode-v1 is taken"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_kernel_is_listed_with_its_reason_and_stops_nothing(tmp_path, kind):
    variant, reason = BROKEN[kind]
    folder = add_kernel(tmp_path, "aa-first", variant=variant)
    add_kernel(tmp_path, "zz-last", variant=PLAIN.replace("mine", "healthy"))
    catalog = load(tmp_path)
    (broken,) = catalog.broken
    assert broken.name == "decode/aa-first"
    assert broken.folder == folder
    assert reason in broken.reason
    assert set(catalog.entries) == {*BUNDLED_NAMES, "decode-healthy"}


def test_a_declaration_is_run_again_only_when_it_has_changed(tmp_path):
    runs = tmp_path / "runs"
    counting = f"open({str(runs)!r}, 'a').write('.')\n"
    variant = add_kernel(tmp_path, variant=PLAIN + counting) / "variant.py"
    first, second = (load(tmp_path).entries["decode-mine"] for _ in range(2))
    assert runs.read_text() == "."
    assert first == second
    variant.write_text(PLAIN.replace("An idea", "Another one") + counting)
    assert load(tmp_path).entries["decode-mine"].idea == "Another one."
    variant.write_text("raise ValueError('no')\n" + counting)
    assert ["no" in broken.reason for _ in range(2) for broken in load(tmp_path).broken] == [True, True]
    variant.write_text(PLAIN + counting)
    assert load(tmp_path).entries["decode-mine"].idea == first.idea
    assert runs.read_text() == "..."


def test_a_suite_in_a_file_is_read_again_when_it_has_changed(tmp_path):
    shutil.copytree(BUNDLED / "prefill", tmp_path / "prefill")
    stored = tmp_path / "prefill" / "serving.csv"

    def workloads():
        return len(load_catalog([tmp_path]).ops["prefill"].suite("serving").workloads)

    before = workloads()
    stored.write_text("".join(stored.read_text().splitlines(keepends=True)[:-1]))
    assert workloads() == before - 1


@pytest.mark.parametrize("op", ["raise ValueError('no')\n", "op = 3\n", "def op(:\n"])
def test_a_broken_op_takes_only_its_own_kernels_with_it(tmp_path, op):
    add_kernel(tmp_path, op="gemm")
    (tmp_path / "gemm" / "op.py").write_text(op)
    catalog = load(tmp_path)
    assert [broken.name for broken in catalog.broken] == ["gemm"]
    assert set(catalog.entries) == BUNDLED_NAMES


@pytest.mark.parametrize("folder", ["notes", ".hidden", "_draft", "__pycache__"])
def test_a_folder_that_declares_nothing_is_no_kernel(tmp_path, folder):
    (tmp_path / "decode" / folder).mkdir(parents=True)
    if folder != "notes":
        (tmp_path / "decode" / folder / "variant.py").write_text("raise ValueError\n")
    assert load(tmp_path).broken == ()


def test_what_is_missing_is_found_without_importing_it(tmp_path):
    add_kernel(
        tmp_path,
        variant=TORCH_KERNEL.replace("import TorchKernel", "import Requirement, TorchKernel").format(
            ", requires=(Requirement('json', extra='a'), Requirement('module_from_nowhere', extra='b'))"
        ),
    )
    assert load(tmp_path).entries["decode-mine"].missing().module == "module_from_nowhere"


def test_the_hash_is_of_the_files_that_a_kernel_is_made_of(tmp_path):
    """Not of a gate's tolerance, by which a kernel would look changed between two runs, nor of the checkout's place."""
    root = Path(shutil.copytree(BUNDLED / "decode", tmp_path / "kernels" / "decode")).parent
    shutil.copytree(BUNDLED / "include", root / "include")

    def hashes():
        entries = load_catalog([root]).entries
        return entries["decode-v4"].source_hash(), entries["decode-triton"].source_hash()

    before = hashes()
    assert before == tuple(load().entries[name].source_hash() for name in ("decode-v4", "decode-triton"))
    for file in ("v1/kernel.cu", "v4/__pycache__/variant.cpython-311.pyc", "numerics.py", "op.py"):
        path = root / "decode" / file
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as edited:
            edited.write("\n")
        assert hashes() == before, file
    for file in ("v4/kernel.cu", "v4/variant.py", "gdn.cuh"):
        path = root / "decode" / file
        path.write_text(path.read_text() + "\n")
        (cuda, triton), (last, same) = hashes(), before
        assert cuda != last, file
        assert triton == same, "a CUDA header is no part of a Triton kernel"
        before = cuda, triton
    folder = root / "decode" / "v4"
    (folder / "a.cuh").write_text("one")
    (folder / "b.cuh").write_text("other")
    before = hashes()
    (folder / "a.cuh").write_text("other")
    (folder / "b.cuh").write_text("one")
    assert hashes() != before
