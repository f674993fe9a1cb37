"""A new folder is whole or not there, and goes beside the original, or where one says."""

from pathlib import Path

import pytest

from gdnbench.catalog import new
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.new import choose_root, write_folder
from gdnbench.errors import DeclarationError, UsageError

FILES = {Path("variant.py"): b"x = 1\r\n", Path("deep/er/notes.bin"): b"\0\xff"}


def accept(_folder):
    pass


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("error", [DeclarationError("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_nothing_is_left_of_what_fails(tmp_path, error):
    def fail(_folder):
        raise error

    with pytest.raises((type(error), UsageError)):
        write_folder(tmp_path / "a" / "b" / "new", FILES, fail)
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_is_there_stays(tmp_path, make):
    make(tmp_path / "new")
    with pytest.raises(UsageError, match="exists"):
        write_folder(tmp_path / "new", FILES, accept)
    assert everything_in(tmp_path) == ["new"]


# --- where it goes


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
    monkeypatch.setattr(new, "_PACKAGE", BUNDLED.parent)


def test_a_copy_goes_into_the_checkout_only_from_there(here, monkeypatch):
    assert choose_root(V4, (BUNDLED,), None) == here / "kernels"
    monkeypatch.chdir(BUNDLED.parent)
    assert choose_root(V4, (BUNDLED, here / "one"), None) == BUNDLED


@pytest.mark.usefixtures("installed")
def test_nothing_goes_into_an_installed_package(here, monkeypatch):
    monkeypatch.chdir(BUNDLED.parent)
    assert choose_root(V4, (BUNDLED, here / "one", here / "other"), None) == here / "one"
    assert choose_root(V4, (BUNDLED,), None) == Path.cwd() / "kernels"
    monkeypatch.chdir(here)
    assert choose_root(V4, (BUNDLED, here / "one", here / "other"), None) == here / "one"
    assert choose_root(V4, (BUNDLED,), None) == here / "kernels"
