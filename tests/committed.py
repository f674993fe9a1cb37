"""The runs and profiles that the repository carries and nothing else: what was measured here since is in no test."""

import atexit
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _names(folder, depth):
    """The folders that git tracks; all there are where this is no checkout."""
    command = ["git", "-C", str(ROOT), "ls-files", "--", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tracked = {Path(*Path(line).parts[:depth]) for line in done.stdout.splitlines()}
    return tracked or {path.relative_to(ROOT) for path in (ROOT / folder).glob("/".join("*" * (depth - 1)))}


def _linked():
    home = Path(tempfile.mkdtemp(prefix="gdnbench-committed-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in (*_names("results", 2), *_names("profiles", 3)):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(ROOT / name)
    return home


HOME = _linked()
RESULTS = HOME / "results"
PROFILES = HOME / "profiles"


def results_until(run, folder):
    """A folder of the runs that there were when this one was the latest: a newer one changes no test."""
    for path in RESULTS.iterdir():
        if not path.name[0].isdigit() or path.name <= run:
            (folder / path.name).symlink_to(path.resolve())
    return folder
