"""A copy of any kernel is a kernel: it loads, under names of its own, and says what it said."""

import json
from io import BytesIO
from tokenize import tokenize

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from write_kernels import write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.entry import without_claims
from gdnbench.catalog.new import entry_of, make_kernel, op_named_by
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.build import Job, build
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.kernel import TorchKernel

BUNDLED = default_roots()[0]
NAMES = [name for name, entry in CATALOG.entries.items() if not entry.dispatch]
LABELS = [
    variant.label for name in NAMES for variant in (CATALOG.entries[name].default, *CATALOG.entries[name].presets)
]

MINE = '''"""Mine."""
from gdnbench import TorchKernel
kernel = TorchKernel(name="decode-mine"{})
'''


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts)


def load(root, name="decode-new1"):
    catalog = load_catalog([BUNDLED, root])
    assert catalog.broken == ()
    return catalog.entries[name]


@pytest.mark.parametrize("label", LABELS)
def test_a_copy_of_every_kernel_and_preset_loads_with_its_params(tmp_path, label):
    op = op_named_by(label, CATALOG.ops)
    made = make_kernel(f"{op}-new1", label, tmp_path)
    origin, variant = find_variant(CATALOG, op, label)
    copy = load(tmp_path, f"{op}-new1")
    assert copy.folder == made.folder == tmp_path / op / "new1"
    assert type(copy.kernel) is type(origin.kernel)
    assert copy.default.params == variant.params
    assert copy.kernel.presets == {}
    assert copy.idea.startswith(f"Copy of {label}: ")
    assert copy.kernel.requires == origin.kernel.requires
    assert everything_in(copy.folder) == everything_in(origin.folder) == sorted(map(str, made.files))


def test_a_dispatcher_has_no_code_to_copy_and_the_kernels_that_it_picks_are_named(tmp_path):
    with pytest.raises(UsageError, match="decode-auto picks kernels") as caught:
        make_kernel("decode-new1", "decode-auto", tmp_path)
    table = CATALOG.entries["decode-auto"].dispatch
    picked = {pick.kernel for rows in table.picks.values() for pick in rows.values()}
    assert picked
    assert all(name in caught.value.hint for name in picked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in NAMES if not CATALOG.entries[name].kernel.presets])
def test_a_copy_differs_from_the_original_in_strings_and_its_functions_name_alone(tmp_path, name):
    new = f"{op_named_by(name, CATALOG.ops)}-new1"
    make_kernel(new, name, tmp_path)
    origin, copy = CATALOG.entries[name], load(tmp_path, new)
    text = copy.source.read_text()
    if not getattr(origin.kernel, "launches", ())[1:]:
        text = text.replace(copy.kernel.entry, origin.kernel.entry)
    assert origin.source.read_text() == text
    old, new = (tokens(folder / "variant.py") for folder in (origin.folder, copy.folder))
    strings = {before: after for before, after in zip(old, new, strict=True) if before != after}
    docstring, *labels = strings
    assert docstring.startswith('"""')
    assert {json.loads(label) for label in labels} <= {name, origin.kernel.entry}


def tokens(path):
    """Without claims, which a copy does not have."""
    return [token.string for token in tokenize(BytesIO(without_claims(path.read_bytes())).readline)]


@pytest.mark.parametrize("name", ["decode-v4", "decode-triton"])
def test_a_copy_of_a_gpu_kernel_compiles_elsewhere(tmp_path, monkeypatch, name):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "builds"))
    make_kernel("decode-new1", name, tmp_path / "mine")
    copy = load(tmp_path / "mine")
    built = build(Job(copy, copy.default, decode_at(), "sm_90"))
    assert built.symbol == copy.kernel.entry


def test_params_after_colons_become_the_defaults(tmp_path):
    make_kernel("decode-new1", "decode-triton:BV=16:WARPS=4", tmp_path)
    copy = load(tmp_path)
    assert dict(copy.default.params) == {**CATALOG.entries["decode-triton"].default.params, "BV": 16, "WARPS": 4}
    assert copy.idea.startswith("Copy of decode-triton with BV=16 WARPS=4: ")
    assert copy.kernel.entry == "gdn_decode"


def test_other_files_are_copied_as_they_are(tmp_path):
    folder = write_kernel(
        tmp_path / "decode" / "mine",
        "\ufeff" + MINE.format(', entry="decode_mine"'),
        "from helper import decode_mine\n",
    )
    (folder / "deep").mkdir()
    (folder / "deep" / "table.bin").write_bytes(b"\0 decode_mine \xff")
    (folder / "notes.txt").write_bytes(b"decode_mine, not decode_mine2 or \xe9decode_mined\r\n")
    made = make_kernel("decode-new1", "decode-mine", tmp_path)
    assert (made.folder / "deep" / "table.bin").read_bytes() == b"\0 decode_mine \xff"
    assert (made.folder / "notes.txt").read_bytes() == b"decode_new1, not decode_mine2 or \xe9decode_mined\r\n"
    assert (made.folder / "kernel.py").read_text() == "from helper import decode_new1\n"
    assert isinstance(load(tmp_path).kernel, TorchKernel)


def refuse(tmp_path, kind, match, *arguments):
    before = everything_in(tmp_path)
    with pytest.raises(kind, match=match) as caught:
        make_kernel(*arguments)
    assert caught.value.hint
    assert everything_in(tmp_path) == before
    return caught.value


def test_a_name_without_its_op_is_answered_with_the_origins(tmp_path):
    hint = refuse(tmp_path, UsageError, "not a kernel's name", "gemv-mine", "nvfp4-gemv-v2", tmp_path).hint
    assert hint.startswith("a name begins with nvfp4-gemv-; ")
    assert hint.endswith("as in nvfp4-gemv-mine")


@pytest.mark.parametrize(
    ("variant", "kind", "match"),
    [
        (MINE.format("").replace('"decode-mine"', '"-".join(["decode", "mine"])'), UsageError, "computes its name"),
        (MINE.format("") + 'assert kernel.name == "decode-mine"\n', DeclarationError, "AssertionError"),
        (MINE.format("") + "from pathlib import Path\nassert Path(__file__).parent.parent.name == 'decode'\n"
         "assert 'mine' in __file__.split('/')\n", DeclarationError, "AssertionError"),
    ],
)  # fmt: skip
def test_a_copy_that_would_not_load_is_not_made(tmp_path, variant, kind, match):
    write_kernel(tmp_path / "decode" / "mine", variant)
    refuse(tmp_path, kind, match, "decode-new1", "decode-mine", tmp_path)


# --- names


OPS = ("decode", "prefill", "decode-paged")


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("decode-v9", "decode"),
        ("decode-floor-copy", "decode"),
        ("prefill-1", "prefill"),
        ("decode-paged-v1", "decode-paged"),
        ("decode-paged", "decode"),
    ],
)
def test_a_name_begins_with_its_op(name, op):
    assert op_named_by(name, OPS) == op


@pytest.mark.parametrize(
    "name",
    ["", "v9", "decode", "decode-", "decode-V9", "decode-v_9", "decode--v9", "decode-v9-", "decodev9", "mtp-v9",
     "decode-v9:BV=4", "decode-v9,decode-v8", "decode-*", "decode-v9/..", "decode-../v9", "decode-v9\n", "decode-é"],
)  # fmt: skip
def test_what_is_no_name_is_told_what_is(name):
    with pytest.raises(UsageError, match="not a kernel's name") as caught:
        op_named_by(name, OPS)
    assert "decode-mine" in caught.value.hint


@pytest.mark.parametrize(
    ("entry", "new"),
    [("gdn_decode_v4", "gdn_decode_v9_fast"), ("decode_v4_kernel", "decode_v9_fast_kernel"), ("bind", "bind"),
     ("gdn_decode_v4b", "gdn_decode_v4b"), ("gdn_decode", "gdn_decode")],
)  # fmt: skip
def test_a_function_follows_where_it_carries_the_kernels_name(entry, new):
    assert entry_of(entry, "decode-v4", "decode-v9-fast") == new
