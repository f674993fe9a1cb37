"""What docs/verifying.md says of errors along sequences, and docs/serving.md of bits, is what benchmarks/ has."""

from pathlib import Path

from benchmarks import invariance
from benchmarks.length import OF_DECODE, OF_POOL, long_table, read, read_long, table

PAGE, SERVING = ((Path(__file__).parents[1] / "docs" / name).read_text() for name in ("verifying.md", "serving.md"))


def test_the_pages_table_is_of_the_stored_marks():
    rows = list(table(read()))
    assert len(rows) == 2 + 6
    assert "\n".join(rows) in PAGE


def test_the_tables_of_a_gpu_are_of_what_was_stored():
    assert {mark["tokens"] for mark in read_long()} >= {"1024", "1048576"}
    assert "\n".join(long_table(read_long())) in PAGE
    assert "\n".join(invariance.table(invariance.read())) in SERVING


def ratios(state_type):
    marks = [mark for mark in read() if mark["kernel"] == OF_POOL[0] and mark["state_type"] == state_type]
    return [float(mark["state_error"]) / float(mark["emulated_state_error"]) for mark in marks]


def test_what_the_page_says_of_roundings_holds():
    assert round(max(ratios("bfloat16")), 2) == 1.01
    assert round(max(ratios("float32")), 1) == 2.6
    assert "in bf16 (at most 1.01 times), and in fp32 by at most 2.6 times" in PAGE
    last = {m["keys"]: f"{float(m['state_error']):.2g}" for m in read() if m["kernel"] == OF_DECODE[0]}
    assert last == {"isotropic": "3.5e-07", "alike": "6.4e-07"}
    assert "3.5e-7 off with isotropic keys and 6.4e-7 with alike ones" in PAGE
