"""Which op a command is about, where several are in the catalog."""

import shutil

import pytest
from faults import REPOSITORY

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import op_option, resolve_op
from gdnbench.errors import UnknownNameError, UsageError

TOYS = REPOSITORY / "tests" / "toys"


@pytest.fixture(scope="module")
def catalog():
    return load_catalog([*default_roots()[:1], TOYS])


@pytest.mark.parametrize(
    ("named", "op"),
    [
        ([], "decode"),
        ([""], "decode"),
        (["all"], "decode"),
        (["*"], "decode"),
        (["decode-v4"], "decode"),
        (["gemm-torch"], "gemm"),
        (["gemm-tuned:COLUMNS=4"], "gemm"),
        (["gemm-*"], "gemm"),
        (["gemm-torch , gemm-cuda"], "gemm"),
        (["all", "ragged-torch"], "ragged"),
        (["*-cuda", "gemm-torch"], "gemm"),  # the glob alone means kernels of two ops
        (["*-cuda,*-columns"], "ragged"),
        (["decode-v4b"], "decode"),  # a preset
    ],
)
def test_it_is_the_one_that_has_all_kernels_named(catalog, named, op):
    assert resolve_op(catalog, "", named) == op


@pytest.mark.parametrize(
    ("named", "told", "hint"),
    [
        (["*-cuda"], r"\*-cuda is of gemm and ragged", "say which with --op: gemm or ragged"),
        (["gemm-torch", "decode-v4"], "gemm-torch is of gemm; decode-v4 is of decode", "--op: gemm or decode"),
        (["ragged-*,gemm-*"], r"ragged-\* is of ragged; gemm-\* is of gemm", "--op: ragged or gemm"),
        (["*-cuda", "decode-v4"], r"\*-cuda is of gemm and ragged; decode-v4 is", "--op: gemm or ragged or decode"),
    ],
)
def test_kernels_of_several_ops_are_refused_with_the_ops(catalog, named, told, hint):
    with pytest.raises(UsageError, match=told) as caught:
        resolve_op(catalog, "", named)
    assert caught.value.hint.endswith(hint)


@pytest.mark.parametrize("named", [["gemm-trton"], ["gemm-torch", "gemm-trton"], ["decode-v4,gemm-trton:BM=2"]])
def test_a_name_that_nothing_has_is_refused_with_the_nearest_of_every_op(catalog, named):
    with pytest.raises(UnknownNameError, match="there is no kernel gemm-trton") as caught:
        resolve_op(catalog, "", named)
    assert "gemm-triton" in caught.value.hint


def test_the_only_op_of_a_catalog_is_meant_where_no_kernel_is_named(tmp_path):
    shutil.copytree(TOYS / "gemm", tmp_path / "gemm")
    only = load_catalog([tmp_path])
    assert resolve_op(only, "", []) == resolve_op(only, "", ["all"]) == "gemm"


def test_of_several_ops_none_is_meant_by_chance():
    with pytest.raises(UsageError, match="there are 2 ops") as caught:
        resolve_op(load_catalog([TOYS]), "", ["all"])
    assert caught.value.hint == "say which with --op: gemm or ragged"


@pytest.mark.parametrize(
    ("globs", "op"),
    [
        (["decode-*"], "decode"),
        (["decode-floor-*", "decode-f*"], "decode"),
        (["decode-pool-*"], "decode-pool"),
        (["decode-pool-v*", "decode-*"], "decode-pool"),
        (["decode-v*"], "decode"),
    ],
)
def test_a_glob_means_the_op_that_it_begins_with(catalog, globs, op):
    assert resolve_op(catalog, "", globs) == op


def test_a_command_without_a_kernel_names_an_op_that_is_not_the_usual_one():
    assert op_option("gemm") == ["--op", "gemm"]
    assert op_option("decode") == []
