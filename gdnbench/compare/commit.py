"""`git:REV`: the runs of a commit."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from gdnbench.compare.filter import some
from gdnbench.errors import UnknownNameError
from gdnbench.store import RunInfo, list_runs, read_info, readable
from gdnbench.wording import plural

PREFIX = "git:"
_SHORT = 8


def runs_of_commit(revision: str, results: Path) -> tuple[Path, ...]:
    """The folders of a revision's stored runs, newest first; at least one.

    Args:
        revision: what `git rev-parse` takes: a tag, a branch, `HEAD~1`, the start of a hash.
        results: where runs are.

    Raises:
        UnknownNameError: if git knows no such commit, or no run has it.
    """
    commit = _resolve(revision)
    known = _commits(results)
    found = tuple(folder for folder, info in reversed(known) if info.git.get("commit") == commit)
    if found:
        return found
    counts = Counter(str(info.git["commit"])[:_SHORT] for _, info in known)
    have = [f"{short} ({plural(count, 'run')})" for short, count in counts.items()]
    hint = f"runs have the commits {some(have)}" if have else "no stored run knows its commit"
    raise UnknownNameError(f"no run of commit {commit[:_SHORT]} ({revision}) in {results}", hint)


def _resolve(revision: str) -> str:
    asked = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnknownNameError(f"git cannot be asked for {revision}: {error}", "give the run's id instead") from error
    lines = told.stdout.split()
    if told.returncode != 0 or not lines:
        raise UnknownNameError(f"git knows no commit {revision!r} here", "git log --oneline lists them")
    return lines[-1]


def _commits(results: Path) -> list[tuple[Path, RunInfo]]:
    """Runs that know their commit, oldest first."""
    known = readable(list_runs(results), lambda folder: (folder, read_info(folder)))
    return [(folder, info) for folder, info in known if info.git.get("commit")]
