"""Trees that travel: what is sent, and what a hostile machine might send back."""

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
import tracemalloc
from random import Random

import pytest

from gdnbench.errors import GdnbenchError, MachineError, UsageError
from gdnbench.remote.transfer import files_under, hash_of, pack, unpack

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
        ([("/abs/file", b"x")], "outside the folder"),
        ([("../up", b"x")], "outside the folder"),
        ([("a/../../up", b"x")], "outside the folder"),
        ([("..", tarfile.DIRTYPE)], "outside the folder"),
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
def test_a_hostile_archive_is_refused_and_nothing_lies_outside(tmp_path, monkeypatch, members, why):
    monkeypatch.setattr("gdnbench.remote.transfer.MOST_FILES", 3)
    monkeypatch.setattr("gdnbench.remote.transfer.MOST_BYTES", 1000)
    (tmp_path / "in").mkdir()
    with pytest.raises(UsageError, match=why):
        unpack(tar(*members), tmp_path / "in")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert not any(path.is_symlink() for path in (tmp_path / "in").rglob("*"))


def compressed(raw):
    return gzip.compress(raw, 1, mtime=0)


def block(name=b"a", size=b"%011o" % 0, kind=b"0", link=b""):
    """A header of 512 bytes with the checksum that belongs to it."""
    head = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size.ljust(12, b"\0") + b"%011o\0" % 0
    head += b" " * 8 + kind + link.ljust(100, b"\0") + b"ustar\x0000".ljust(8, b"\0")
    head = head.ljust(512, b"\0")
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def octal(size):
    return b"%011o" % size


def binary(number):
    """A size as GNU tar writes those that octal digits have no room for."""
    return b"\x80" + number.to_bytes(11, "big")


def padded(content):
    return content + b"\0" * (-len(content) % 512)


def extended(*records, kind=b"x"):
    content = b"".join(records)
    return block(b"pax", octal(len(content)), kind) + padded(content)


END = b"\0" * 1024
WHOLE = block(size=octal(5)) + padded(b"hello") + END
LONG = 48 << 20
HOSTILE = {
    "a long name of 48 MiB": lambda: block(b"././@LongLink", octal(LONG), b"L") + b"a" * LONG,
    "a long link of 48 MiB": lambda: block(b"././@LongLink", octal(LONG), b"K") + b"a" * LONG,
    "extended headers of 48 MiB": lambda: block(b"pax", octal(LONG), b"x") + b"a" * LONG,
    "global headers of 48 MiB": lambda: block(b"pax", octal(LONG), b"g") + b"a" * LONG,
    "global headers without end": lambda: extended(b"12 path=abc\n", kind=b"g") * 30_000,
    "long names without end": lambda: (block(b"././@LongLink", octal(4), b"L") + padded(b"abc")) * 100_000,
    "a long name that says it has an exabyte": lambda: block(b"././@LongLink", binary(1 << 60), b"L") + b"a" * 9999,
    "48 MiB of zeros behind the end": lambda: WHOLE + b"\0" * LONG,
    "a file that says it has an exabyte": lambda: block(size=binary(1 << 60)),
    "a file of a negative size": lambda: block(size=b"\xff" * 12) + WHOLE,
    "a size that is not a number": lambda: block(size=b"hello") + WHOLE,
    "an extended size that is not a number": lambda: extended(b"12 size=1e9\n") + WHOLE,
    "an extended size below zero": lambda: extended(b"12 size=-99\n") + WHOLE,
    "an extended length that is not a number": lambda: extended(b"99999999999999999999 path=a\n") + WHOLE,
    "an extended length of zero": lambda: extended(b"0 path=abcd\n") + WHOLE,
    "sparse numbers that are none": lambda: extended(b"24 GNU.sparse.map=a,b,c\n", b"22 GNU.sparse.size=1\n") + WHOLE,
    "a sparse file": lambda: block(kind=b"S", size=octal(0)) + END,
    "a sum that is wrong": lambda: block()[:150] + b"77" + block()[152:] + END,
    "no header": lambda: b"\xff" * 4096,
    "folders in one another": lambda: block(b"././@LongLink", octal(2001), b"L") + padded(b"a/" * 1000 + b"\0") + WHOLE,
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_hostile_stream_is_refused_by_what_it_holds_and_not_by_what_it_says(tmp_path, fault):
    stream = io.BytesIO(compressed(HOSTILE[fault]()))
    tracemalloc.start()
    try:
        with pytest.raises(GdnbenchError):
            unpack(stream, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "change",
    {
        "a wrong checksum": lambda packed: packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:],
        "a wrong length": lambda packed: packed[:-1] + bytes([packed[-1] ^ 1]),
        "no checksum": lambda packed: packed[:-8],
        "half a checksum": lambda packed: packed[:-4],
        "text behind it": lambda packed: packed + b"text",
    }.items(),
    ids=lambda change: change[0],
)
def test_a_stream_whose_checksum_does_not_hold_is_damaged(tmp_path, change):
    (tmp_path / "as it was").mkdir()
    unpack(io.BytesIO(compressed(WHOLE)), tmp_path / "as it was")
    assert (tmp_path / "as it was" / "a").read_bytes() == b"hello"
    with pytest.raises(MachineError, match="damaged or cut off"):
        unpack(io.BytesIO(change[1](compressed(WHOLE))), tmp_path)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_changes_in_an_archive_it_is_unpacked_or_refused(tmp_path, seed):
    random = Random(seed)
    raw = bytearray(
        extended(b"20 path=somewhere/b\n", b"20 mtime=123456.789\n") + block(size=octal(5)) + padded(b"hello") + WHOLE
    )
    for _ in range(random.randint(1, 12)):
        raw[random.randrange(len(raw) - 1024)] = random.choice(
            [0, 10, 32, 47, 48, 55, 61, 120, 255, random.randrange(256)]
        )
    (tmp_path / "in").mkdir()
    with contextlib.suppress(GdnbenchError):
        unpack(io.BytesIO(compressed(bytes(raw))), tmp_path / "in")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_name_that_comes_twice_never_replaces_what_the_first_one_wrote(tmp_path):
    with pytest.raises(GdnbenchError):
        unpack(tar(("a", b"first"), ("a", b"second")), tmp_path)
    with pytest.raises(GdnbenchError):
        unpack(tar(("b", b"file"), ("b/c", b"below a file")), tmp_path)


@pytest.mark.parametrize("end", [0, 10, 30, 3000])
def test_an_archive_that_is_cut_off_is_told(tmp_path, end):
    with pytest.raises(MachineError, match="damaged or cut off"):
        unpack(tar(("a", os.urandom(5000)), end=end), tmp_path)


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
    monkeypatch.setattr("gdnbench.remote.transfer.MOST_SENT_BYTES", 10)
    (tmp_path / "a").write_text("x" * 11)
    with pytest.raises(UsageError, match="to send"):
        files_under(tmp_path)
