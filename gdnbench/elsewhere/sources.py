"""The sources that travel: gdnbench itself and the folders of kernels, each sent once by the hash of its content."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gdnbench
from gdnbench.catalog.catalog import default_roots
from gdnbench.elsewhere.archive import files_under, hash_of, pack
from gdnbench.elsewhere.host import Host, last_line, run_there, shell
from gdnbench.errors import MachineError, UsageError

FOLDER = "sources"
WHOLE = ".whole"
"""The file that says that a tree there is whole."""

_PACKAGE = "gdnbench"

_PUT = f"""
set -eu
cd "$1"
new="$2.new.$$"
trap 'rm -rf "$new"' EXIT
mkdir "$new"
tar -xzf - -C "$new"
arrived="$(find "$new" -type f -print0 | tr -dc '\\000' | wc -c)"
if test "$arrived" -ne "$3"; then echo 'not every file arrived' >&2; exit 1; fi
touch "$new/{WHOLE}"
mv -T "$new" "$2" 2>/dev/null || test -e "$2/{WHOLE}"
"""
"""Puts a tree from stdin into folder $1 under the name $2, in one step; of two that do so at once one does."""


@dataclass(frozen=True)
class SourceTree:
    """A tree of sources.

    Attributes:
        folder: where it lies here.
        files: by their path there.
        hash: of its content.
    """

    folder: Path
    files: Mapping[str, Path]
    hash: str


def package_tree() -> SourceTree:
    """This very gdnbench, without its kernels."""
    folder = Path(gdnbench.__file__).resolve().parent
    files = {f"{_PACKAGE}/{name}": path for name, path in files_under(folder).items() if _is_ours(name)}
    return SourceTree(folder, files, hash_of(files))


def _is_ours(name: str) -> bool:
    return not name.startswith("_kernels/")


def kernel_trees() -> list[SourceTree]:
    """The bundled kernels and the user's, in their order.

    Raises:
        UsageError: if a folder is not there, or is too large to send.
    """
    trees = []
    for root in default_roots():
        if not root.is_dir():
            raise UsageError(f"{root} is no folder of kernels", "correct GDNBENCH_KERNELS")
        files = files_under(root)
        trees.append(SourceTree(root, files, hash_of(files)))
    return trees


def put_trees(host: Host, workdir: str, trees: Sequence[SourceTree], there: frozenset[str]) -> None:
    """Sends what is not there yet.

    Args:
        host: where to.
        workdir: the target's, as the host has it.
        trees: what is needed.
        there: hashes of trees that the host has.

    Raises:
        MachineError: if one does not arrive.
    """
    for tree in trees:
        if tree.hash not in there:
            put_files(host, f"{workdir}/{FOLDER}", tree.hash, tree.files)


def put_files(host: Host, folder: str, name: str, files: Mapping[str, Path]) -> None:
    """Sends files into a folder of their own, whole or not at all.

    Raises:
        MachineError: if they do not arrive.
    """
    with tempfile.TemporaryFile() as stream:
        pack(files, stream)
        stream.seek(0)
        done = run_there(host, shell(_PUT, folder, name, str(len(files))), stream)
    if done.returncode:
        raise MachineError(
            f"{name} could not be sent to {host.name}: {last_line(done.errors)}", f"look at {folder} there"
        )
