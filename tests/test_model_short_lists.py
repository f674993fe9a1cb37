"""Lists that labels shorten: what they stand for, and how they are found again by what was printed."""

import re

import pytest
from run_data import measured, store

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import parse_workload, parse_workloads
from gdnbench.errors import UsageError
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params

OP = load_catalog(default_roots()[:1]).ops["prefill"]
LONG = [each for each in OP.suite("contest").workloads if "n-" in str(each)]


def test_every_label_of_a_suite_is_understood_as_it_is_printed():
    assert LONG
    for workload in LONG:
        lengths = re.search(r"lengths=\S+", str(workload))[0]
        assert parse_workload(OP, f"heads={workload.aliases['heads']} {lengths}", "one") == workload


def test_shortened_lists_stand_among_others():
    short = re.search(r"lengths=(\S+)", str(LONG[0]))[1]
    found = parse_workloads(OP, f"lengths=8x1024,{short},64")
    assert [each.lengths for each in found] == [(1024,) * 8, LONG[0].lengths, (64,)]


def test_a_list_that_no_suite_has_is_refused_with_where_it_stands():
    with pytest.raises(UsageError, match="15n-4124-00000000 stands for a list that no suite") as caught:
        parse_workloads(OP, "lengths=15n-4124-00000000")
    assert "measurements.csv" in caught.value.hint


def _store(folder, workload):
    entry = load_catalog(default_roots()[:1]).entries["prefill-triton"]
    variant = Variant("prefill-triton", "prefill-triton", params=Params(dict(entry.default.params)))
    store(folder, [measured(Case(variant, workload), 40.0)], op="prefill", workloads=OP.workloads)


def test_a_run_says_what_a_shortened_label_stands_for(tmp_path, command_line):
    folder = tmp_path / "20260102-030405-h200-prefill"
    folder.mkdir()
    workload = LONG[0]
    _store(folder, workload)
    code, out, err = command_line("show", folder.name, "--out", tmp_path)
    assert code == 0, err
    lengths = re.search(r"lengths=\S+", str(workload))[0]
    told = f"{lengths}: {len(workload.lengths)} lengths, {sum(workload.lengths):,} in all, and a hash of them;"
    assert told in " ".join(out.split())
    cells = "+".join(str(each) for each in workload.lengths[:2])
    assert cells in (folder / "measurements.csv").read_text()


def test_a_run_whose_labels_are_in_full_says_nothing_of_it(tmp_path, command_line):
    folder = tmp_path / "20260102-030405-h200-prefill"
    folder.mkdir()
    _store(folder, OP.default)
    assert "a hash of them" not in command_line("show", folder.name, "--out", tmp_path)[1]
