"""A laptop whose target `cluster` is Slurm's, with a `srun` that runs its command here."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from faults import ADVERSARIAL, python_path
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
    """Programs by the names of Slurm's that do without it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (("srun", _SRUN), ("scancel", _SCANCEL)):
            program = folder / name
            program.write_text(text)
            program.chmod(0o755)
        self.environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "SLURM_MADE_UP": str(folder)}

    def occupy(self) -> None:
        """Leaves no node free."""
        (self.folder / "busy").touch()

    def free(self) -> None:
        """Ends what `occupy` began."""
        (self.folder / "busy").unlink(missing_ok=True)

    def cancel(self) -> None:
        """Ends the job that runs, as an administrator would."""
        os.kill(int((self.folder / "running").read_text()), signal.SIGTERM)

    @property
    def left(self) -> set[str]:
        """The jobs that nobody has cancelled."""
        lines = [self.folder / name for name in ("jobs", "cancelled")]
        jobs, cancelled = (set(path.read_text().split()) if path.exists() else set() for path in lines)
        return jobs - cancelled


def cluster_laptop(folder: Path, slurm: MadeUpSlurm, *options: str, **environment: str) -> Laptop:
    """A laptop in an empty folder with the cluster as its target; `environment` is of commands there."""
    (folder / "project").mkdir()
    laptop = Laptop(folder / "project", folder / WORKDIR, slurm.environment)
    laptop.configure(cluster(laptop.workdir, *options, **environment))
    return laptop


def cluster(workdir: Path, *options: str, login: str = "", **environment: str) -> str:
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
python = "{sys.executable}"
workdir = "{workdir}"
environment = {{ {own} }}
"""
