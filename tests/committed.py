"""The runs and profiles that the repository carries and nothing else: what was measured here since is in no test.

Its runs lie in `results/evidence`; here they are laid out as a user's own, in a folder of runs.
"""

import atexit
import gzip
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "results" / "evidence"


def _names(folder, depth):
    """The folders that git tracks; all there are where this is no checkout."""
    command = ["git", "-C", str(ROOT), "ls-files", "--", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tracked = {Path(*Path(line).parts[:depth]) for line in done.stdout.splitlines()}
    return tracked or {
        path.relative_to(ROOT) for path in (ROOT / folder).glob("/".join("*" * (depth - len(Path(folder).parts))))
    }


def _linked():
    home = Path(tempfile.mkdtemp(prefix="gdnbench-committed-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in (*_names("results/evidence", 3), *_names("profiles", 3)):
        linked = home / Path(*(part for part in name.parts if part != "evidence"))
        linked.parent.mkdir(parents=True, exist_ok=True)
        linked.symlink_to(ROOT / name)
    return home


HOME = _linked()
RESULTS = HOME / "results"
PROFILES = HOME / "profiles"


def copy_run(run, folder):
    """A copy of a run, or one in the folder of runs, with its rounds unpacked and without its samples."""
    shutil.copytree(RESULTS / run, folder, ignore=shutil.ignore_patterns("*.parquet"))
    packed = folder / "rounds.csv.gz"
    if packed.exists():
        (folder / "rounds.csv").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return folder


def results_until(run, folder):
    """A folder of the runs that there were when this one was the latest: a newer one changes no test."""
    for path in RESULTS.iterdir():
        if not path.name[0].isdigit() or path.name <= run:
            (folder / path.name).symlink_to(path.resolve())
    return folder
