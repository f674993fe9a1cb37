"""Names of kernels, and what follows from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.errors import UsageError
from gdnbench.scaffold.naming import entry_of, folder_of, op_named_by, preset_of

OPS = ("decode", "prefill", "decode-paged")
WORD = st.text("abcxyz0189", min_size=1, max_size=6)
NAMES = st.lists(WORD, min_size=1, max_size=4).map(lambda words: "-".join(["decode", *words]))


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


@given(NAMES, NAMES)
def test_folders_are_told_apart_as_names_are(one, other):
    assert (folder_of(one, "decode") == folder_of(other, "decode")) == (one == other)
    assert folder_of(one, "decode").replace("_", "a").isalnum()


@pytest.mark.parametrize(
    ("preset", "new"),
    [("decode-v4b", "decode-v9b"), ("decode-v4-wide", "decode-v9-wide"), ("decode-wide", "decode-v9-wide"),
     ("wide", "decode-v9-wide")],
)  # fmt: skip
def test_a_preset_is_named_after_its_kernel(preset, new):
    assert preset_of(preset, "decode", "decode-v4", "decode-v9") == new


@pytest.mark.parametrize(
    ("entry", "new"),
    [("gdn_decode_v4", "gdn_decode_v9_fast"), ("decode_v4_kernel", "decode_v9_fast_kernel"), ("bind", "bind"),
     ("gdn_decode_v4b", "gdn_decode_v4b"), ("gdn_decode", "gdn_decode")],
)  # fmt: skip
def test_a_function_follows_where_it_carries_the_kernels_name(entry, new):
    assert entry_of(entry, "decode-v4", "decode-v9-fast") == new
