"""Trees that travel: what is sent, and what a hostile machine might send back."""

import io
import os
import tarfile
import tempfile

import pytest

from gdnbench.elsewhere.archive import Limits, files_under, hash_of, pack, unpack
from gdnbench.errors import GdnbenchError, MachineError, UsageError

TYPES = {getattr(tarfile, f"{name}TYPE") for name in ("DIR", "SYM", "LNK", "FIFO", "CHR", "BLK")}


def tar(*members, end=None):
    """A compressed tar of (name, type or content) as a stream."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, what in members:
            member = tarfile.TarInfo(name)
            if what not in TYPES:
                member.size = len(what)
                archive.addfile(member, io.BytesIO(what))
            else:
                member.type = what
                member.linkname = "/etc/passwd"
                archive.addfile(member)
    return io.BytesIO(stream.getvalue()[:end])


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([("/abs/file", b"x")], "elsewhere"),
        ([("../up", b"x")], "elsewhere"),
        ([("a/../../up", b"x")], "elsewhere"),
        ([("..", tarfile.DIRTYPE)], "elsewhere"),
        ([("link", tarfile.SYMTYPE)], "neither a file nor a folder"),
        ([("hard", tarfile.LNKTYPE)], "neither a file nor a folder"),
        ([("fifo", tarfile.FIFOTYPE)], "neither a file nor a folder"),
        ([("null", tarfile.CHRTYPE)], "neither a file nor a folder"),
        ([("disk", tarfile.BLKTYPE)], "neither a file nor a folder"),
        ([("a", b"x"), ("b", b"x"), ("c", b"x"), ("d", b"x")], "too many files"),
        ([("big", b"x" * 2000)], "too much"),
        ([("a", b"x" * 600), ("b", b"x" * 600)], "too much"),
    ],
)
def test_a_hostile_archive_is_refused_and_nothing_lies_outside(tmp_path, members, why):
    (tmp_path / "in").mkdir()
    with pytest.raises(UsageError, match=why):
        unpack(tar(*members), tmp_path / "in", Limits(files=3, size_bytes=1000))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert not any(path.is_symlink() for path in (tmp_path / "in").rglob("*"))


def test_a_name_that_comes_twice_never_replaces_what_the_first_one_wrote(tmp_path):
    with pytest.raises(GdnbenchError):
        unpack(tar(("a", b"first"), ("a", b"second")), tmp_path)
    with pytest.raises(GdnbenchError):
        unpack(tar(("b", b"file"), ("b/c", b"below a file")), tmp_path)


@pytest.mark.parametrize("end", [0, 10, 30, 3000])
def test_an_archive_that_is_cut_off_is_told(tmp_path, end):
    with pytest.raises(MachineError, match="damaged or cut off"):
        unpack(tar(("a", os.urandom(5000)), end=end), tmp_path)


def test_what_is_no_archive_is_told(tmp_path):
    with pytest.raises(MachineError, match="damaged or cut off"):
        unpack(io.BytesIO(b"Welcome to the lab!\n" * 500), tmp_path)


def test_a_tree_arrives_as_it_was_with_odd_names_and_without_what_is_hidden(tmp_path):
    source = tmp_path / "it's a tree"
    (source / "a b" / "__pycache__").mkdir(parents=True)
    (source / "a b" / "c\"d'.py").write_bytes(b"\0\xff")
    (source / "a b" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("secret")
    (source / "linked").symlink_to(source / "a b")
    (source / "loop").symlink_to(source)
    (source / "gone").symlink_to(source / "nothing")
    files = files_under(source)
    assert set(files) == {"a b/c\"d'.py", "linked/c\"d'.py"}
    with tempfile.TemporaryFile() as stream:
        pack(files, stream)
        stream.seek(0)
        (tmp_path / "to").mkdir()
        unpack(stream, tmp_path / "to")
    assert hash_of(files_under(tmp_path / "to")) == hash_of(files)
    assert (tmp_path / "to" / "linked" / "c\"d'.py").read_bytes() == b"\0\xff"


def test_the_hash_is_of_names_and_contents(tmp_path):
    def hashed(**contents):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, content in contents.items():
            (folder / name).write_text(content)
        return hash_of(files_under(folder))

    assert hashed(a="1", b="2") == hashed(b="2", a="1")
    assert len({hashed(a="12"), hashed(a="1"), hashed(a="1", b=""), hashed(b="12"), hashed(a12="")}) == 5


def test_too_much_is_not_sent(tmp_path, monkeypatch):
    monkeypatch.setattr("gdnbench.elsewhere.archive.MOST_SENT_BYTES", 10)
    (tmp_path / "a").write_text("x" * 11)
    with pytest.raises(UsageError, match="to send"):
        files_under(tmp_path)
