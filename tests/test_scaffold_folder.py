"""A new folder is whole or not there."""

from pathlib import Path

import pytest

from gdnbench.errors import DeclarationError, UsageError
from gdnbench.scaffold.folder import read_folder, write_folder

FILES = {Path("variant.py"): b"x = 1\r\n", Path("deep/er/notes.bin"): b"\0\xff"}


def accept(_folder):
    pass


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_what_is_written_can_be_read(tmp_path):
    write_folder(tmp_path / "a" / "b", FILES, accept)
    assert read_folder(tmp_path / "a" / "b") == FILES
    assert everything_in(tmp_path / "a") == ["b", "b/deep", "b/deep/er", "b/deep/er/notes.bin", "b/variant.py"]


def test_what_python_cached_is_left_out(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "variant.cpython-311.pyc").touch()
    (tmp_path / "kernel.cu").touch()
    assert list(read_folder(tmp_path)) == [Path("kernel.cu")]


def test_the_check_sees_all_of_it_hidden_beside_its_place(tmp_path):
    seen = []

    def look(folder):
        seen.append((folder.parent, folder.name[0], read_folder(folder)))
        (folder / "__pycache__").mkdir()

    write_folder(tmp_path / "new", FILES, look)
    assert seen == [(tmp_path, ".", FILES)]
    assert not (tmp_path / "new" / "__pycache__").exists()


@pytest.mark.parametrize("error", [DeclarationError("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_nothing_is_left_of_what_fails(tmp_path, error):
    def fail(_folder):
        raise error

    with pytest.raises((type(error), UsageError)):
        write_folder(tmp_path / "a" / "b" / "new", FILES, fail)
    assert everything_in(tmp_path) == []


def test_folders_that_were_there_stay_when_it_fails(tmp_path):
    (tmp_path / "a").mkdir()

    def fail(_folder):
        raise DeclarationError("no")

    with pytest.raises(DeclarationError):
        write_folder(tmp_path / "a" / "new", FILES, fail)
    assert everything_in(tmp_path) == ["a"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_is_there_stays(tmp_path, make):
    make(tmp_path / "new")
    with pytest.raises(UsageError, match="exists"):
        write_folder(tmp_path / "new", FILES, accept)
    assert everything_in(tmp_path) == ["new"]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write") as caught:
        write_folder(tmp_path / "file" / "decode" / "new", FILES, accept)
    assert "--to" in caught.value.hint
    assert everything_in(tmp_path) == ["file"]
