"""What is inspected when a user names kernels: those that a dispatcher picks, too."""

import pytest

from gdnbench.catalog import default_roots, load_catalog
from gdnbench.errors import UsageError
from gdnbench.inspection.subject import choose_subjects
from gdnbench.model import Shape, TorchKernel

CATALOG = load_catalog(default_roots()[:1])
SHAPES = (Shape(B=1), Shape(B=8), Shape(B=64))
PICKS = CATALOG.entries["decode-auto"].dispatch


def test_a_dispatcher_is_what_it_picks_at_each_shape_under_its_own_name():
    subjects, notes = choose_subjects(CATALOG, "decode", ["decode-auto"], SHAPES)
    assert notes == ()
    assert [(each.entry.kernel.name, each.variant.params, each.shape) for each in subjects] == [
        (PICKS.pick(shape).kernel, PICKS.pick(shape).params, shape) for shape in SHAPES
    ]
    assert not any("auto" in each.name for each in subjects)


def test_what_a_dispatcher_picks_is_inspected_once_where_it_is_named_beside_it():
    pick = CATALOG.behind(CATALOG.entries["decode-auto"].default, SHAPES[0])[1]
    subjects, _ = choose_subjects(CATALOG, "decode", ["decode-auto", pick.label], SHAPES[:1])
    assert [each.name for each in subjects] == [pick.label]


def test_all_is_every_kernel_with_a_build_of_its_own_and_none_twice():
    subjects, notes = choose_subjects(CATALOG, "decode", [], SHAPES[:1])
    names = [each.name for each in subjects]
    assert len(names) == len(set(names))
    entries = CATALOG.entries.values()
    wanted = {e.kernel.name for e in entries if not isinstance(e.kernel, TorchKernel) and not e.dispatch}
    assert {each.entry.kernel.name for each in subjects} == wanted
    assert notes == ()


def test_a_kernel_that_is_reached_through_python_has_nothing_to_inspect():
    with pytest.raises(UsageError, match="decode-fla: reached through Python"):
        choose_subjects(CATALOG, "decode", ["decode-fla"], SHAPES)
