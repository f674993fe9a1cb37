"""Kernels as they were at a git revision, in a folder of their own: the checkout is not touched.

The folder is kept beside the build cache under the commit's name, so that what was compiled from it is found again.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from gdnbench.binary import cache_folder
from gdnbench.catalog import Catalog, Entry, load_catalog
from gdnbench.errors import MachineError, UsageError

_TIMEOUT_S = 60.0


def catalog_at(entry: Entry, revision: str) -> Catalog:
    """The catalog of the folder that a kernel is in, as of a revision of the repository that tracks it.

    An op that is declared elsewhere is taken as it is now.

    Args:
        entry: the kernel.
        revision: whatever git understands: `HEAD~1`, a branch, a commit.

    Raises:
        UsageError: if the kernel is in no repository, or the repository has no such revision or folder in it.
        MachineError: if there is no git, or the folder cannot be written.
    """
    root, op_root = entry.folder.parent.parent, entry.op_folder.parent
    top = Path(_git(root, "rev-parse", "--show-toplevel", said=f"{root} is in no git repository").strip())
    commit = _git(
        top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}", said=f"git has no {revision}"
    ).strip()
    then = _export(top, commit, root.resolve().relative_to(top.resolve()), revision)
    return load_catalog([then] if op_root == root else [op_root, then])


def _export(top: Path, commit: str, inside: Path, revision: str) -> Path:
    """The folder `inside` of the repository as of a commit."""
    kept = cache_folder().parent / "revisions" / commit
    if not (kept / inside).is_dir():
        said = f"{revision} has no {inside}"
        archive = _git_bytes(top, "archive", "--format=tar", commit, "--", str(inside), said=said)
        _unpack(archive, kept, inside)
    return kept / inside


def _unpack(archive: bytes, kept: Path, inside: Path) -> None:
    """Unpacks aside and renames, so that a folder which is there is whole."""
    wanted = kept / inside
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".") as aside:
            tree = Path(aside) / "tree"
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(tree, filter="data")
            if not wanted.is_dir():
                (tree / inside).rename(wanted)
    except (OSError, tarfile.TarError) as error:
        raise MachineError(f"cannot unpack a revision into {kept}: {error}", "set GDNBENCH_CACHE elsewhere") from error


def _git(folder: Path, *arguments: str, said: str) -> str:
    return _git_bytes(folder, *arguments, said=said).decode()


def _git_bytes(folder: Path, *arguments: str, said: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=_TIMEOUT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise UsageError(f"{said}: {reason}", "name a revision as git does, as in --diff git:HEAD~1") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"git does not run: {error}", "--diff git:REV needs git") from error
    return done.stdout
