"""A laptop whose target `cluster` is Slurm's: the one at hand, or a `srun` that runs its command here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faults import ADVERSARIAL, python_path, wait_for
from remote_data import WORKDIR, Laptop

# The first word that is no option is the program, as with srun's own: its options here carry their values.
_SRUN = """#!/bin/sh
while :; do
  case "$1" in
    --partition=nowhere) echo 'srun: error: invalid partition specified: nowhere' >&2; exit 1;;
    --job-name=*) printf '%s\\n' "${1#*=}" >> "$SLURM_MADE_UP/jobs"; shift;;
    -*) shift;;
    *) break;;
  esac
done
if [ -e "$SLURM_MADE_UP/busy" ]; then
  echo 'srun: job 7 queued and waiting for resources' >&2
  while [ -e "$SLURM_MADE_UP/busy" ]; do sleep 0.05; done
fi
echo $$ > "$SLURM_MADE_UP/running"
exec "$@"
"""
_SCANCEL = """#!/bin/sh
for word; do case "$word" in --name=*) printf '%s\\n' "${word#*=}" >> "$SLURM_MADE_UP/cancelled";; esac; done
"""


class MadeUpSlurm:
    """Programs by the names of Slurm's that do without it.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (("srun", _SRUN), ("scancel", _SCANCEL)):
            program = folder / name
            program.write_text(text)
            program.chmod(0o755)
        self.environment = {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "SLURM_MADE_UP": str(folder),
        }

    def occupy(self) -> None:
        """Leaves no node free."""
        (self.folder / "busy").touch()

    def free(self) -> None:
        """Ends what `occupy` began."""
        (self.folder / "busy").unlink(missing_ok=True)

    def cancel(self) -> None:
        """Ends the job that runs, as an administrator would."""
        os.kill(int((self.folder / "running").read_text()), signal.SIGTERM)

    def fail(self) -> None:
        """Ends what runs on the node, without a word."""
        os.kill(int((self.folder / "running").read_text()), signal.SIGKILL)

    def repair(self) -> None:
        """The node comes back."""

    @property
    def left(self) -> set[str]:
        """The jobs that nobody has cancelled."""
        lines = [self.folder / name for name in ("jobs", "cancelled")]
        jobs, cancelled = (set(path.read_text().split()) if path.exists() else set() for path in lines)
        return jobs - cancelled


class SlurmAtHand:
    """The cluster that `srun` reaches from here, of one node with one GPU of the model b200, real or not."""

    def __init__(self) -> None:
        if not (os.environ.get("SLURM_CONF") and shutil.which("srun")):
            pytest.skip("no Slurm at hand: neither SLURM_CONF nor srun")
        self.environment: dict[str, str] = {}
        self._busy: subprocess.Popen[bytes] | None = None

    def occupy(self) -> None:
        """Leaves no GPU free."""
        self._busy = subprocess.Popen(["srun", "--gres=gpu:b200:1", "--job-name=busy", "sleep", "60"])

    def free(self) -> None:
        """Ends what `occupy` began."""
        subprocess.run(["scancel", "--name=busy"], check=True)
        if self._busy:
            self._busy.wait()

    def cancel(self) -> None:
        """Ends the job that runs, as an administrator would."""
        (name,) = self.left
        subprocess.run(["scancel", f"--name={name}"], check=True)

    def fail(self) -> None:
        """Takes the node down, with what runs on it."""
        subprocess.run(["scontrol", "update", f"nodename={_nodes('%N')}", "state=down", "reason=tried"], check=True)

    def repair(self) -> None:
        """The node comes back, by itself if it may."""
        subprocess.run(["scontrol", "update", f"nodename={_nodes('%N')}", "state=resume"], check=False)
        wait_for(lambda: _nodes("%T") == "idle", "the node")

    @property
    def left(self) -> set[str]:
        """The jobs that still wait or run."""
        shown = subprocess.run(["squeue", "--noheader", "--format=%j"], capture_output=True, text=True, check=True)
        return set(shown.stdout.split()) - {"busy"}


def _nodes(what: str) -> str:
    shown = subprocess.run(["sinfo", "--noheader", f"--format={what}"], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def cluster_laptop(
    folder: Path, slurm: MadeUpSlurm | SlurmAtHand, *options: str, tasks: int = 1, **environment: str
) -> Laptop:
    """A laptop with the cluster as its target.

    Args:
        folder: an empty one.
        slurm: the cluster.
        options: of srun.
        tasks: that workloads are split over.
        environment: of commands there.
    """
    (folder / "project").mkdir()
    laptop = Laptop(folder / "project", folder / WORKDIR, slurm.environment)
    laptop.configure(cluster(laptop.workdir, *options, tasks=tasks, **environment))
    return laptop


def cluster(workdir: Path, *options: str, login: str = "", tasks: int = 1, **environment: str) -> str:
    """The table of the target `cluster`."""
    tests = ADVERSARIAL.parent
    paths = python_path(ADVERSARIAL, tests, tests / "simulated")
    own = ", ".join(f'{name} = "{value}"' for name, value in {"PYTHONPATH": paths, **environment}.items())
    words = ", ".join(f'"{word}"' for word in ("--gres=gpu:b200:1", *options))
    through = f'login = "{login}"' if login else ""
    return f"""
[targets.cluster]
kind = "slurm"
{through}
options = [{words}]
tasks = {tasks}
python = "{sys.executable}"
workdir = "{workdir}"
environment = {{ {own} }}
"""
