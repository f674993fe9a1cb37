"""Where a new kernel goes: in a checkout, beside an installed package, and where one says."""

import os

import pytest

from gdnbench.catalog import default_roots, load_catalog
from gdnbench.errors import UsageError
from gdnbench.scaffold import place
from gdnbench.scaffold.place import choose_root, op_folder_in

BUNDLED = default_roots()[0]
V4 = load_catalog([BUNDLED]).entries["decode-v4"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to be in, with two folders of kernels."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def installed(monkeypatch):
    """The bundled kernels are part of a package that is installed."""
    monkeypatch.setattr(place, "_PACKAGE", BUNDLED.parent)


def test_in_a_checkout_it_goes_beside_the_original(here):
    assert choose_root(V4, (BUNDLED, here / "one"), None) == BUNDLED
    assert op_folder_in(BUNDLED, V4) == V4.folder.parent


def test_a_copy_of_ones_own_kernel_stays_among_ones_own(here):
    folder = here / "other" / "decode" / "mine"
    folder.mkdir(parents=True)
    (folder / "variant.py").write_text('from gdnbench import TorchKernel\nkernel = TorchKernel(name="decode-mine")\n')
    (folder / "kernel.py").write_text("")
    roots = (BUNDLED, here / "one", here / "other")
    mine = load_catalog(roots).entries["decode-mine"]
    assert choose_root(mine, roots, None) == here / "other"


@pytest.mark.usefixtures("installed")
def test_nothing_goes_into_an_installed_package(here):
    assert choose_root(V4, (BUNDLED, here / "one", here / "other"), None) == here / "one"
    assert choose_root(V4, (BUNDLED,), None) == here / "kernels"


def test_what_cannot_be_written_is_passed_over(here, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, _mode: path == here / "other")
    assert choose_root(V4, (BUNDLED, here / "one", here / "other"), None) == here / "other"
    assert choose_root(V4, (BUNDLED,), None) == here / "kernels"


def test_a_root_that_is_yet_to_be_made_can_be_written(here):
    assert choose_root(V4, (here / "yet" / "to" / "be",), None) == here / "yet" / "to" / "be"


def test_what_one_says_wins(here):
    assert choose_root(V4, (BUNDLED,), here / "one") == here / "one"
    assert op_folder_in(here / "one", V4) == here / "one" / "decode"


def test_what_holds_no_folders_of_ops_is_refused(here):
    (here / "file").touch()
    with pytest.raises(UsageError, match="not a folder"):
        choose_root(V4, (), here / "file")
    with pytest.raises(UsageError, match="one op") as caught:
        choose_root(V4, (), BUNDLED / "decode")
    assert str(BUNDLED) in caught.value.hint
