"""How long a run of all kernels takes on a GPU, by phase, with an empty build cache and with what that run left.

`python -m benchmarks.run_seconds [OP [SHAPE]]` prints the seconds that `run.json` has. `run-seconds.csv` has what three
H100s and an H200 (hosts of several kinds) took for the 34 kernels and floors of decode at B=1, as changes went in. Its
phases are those that a run announces, `inputs` and `cupti` of the first two rows being processes of their own, and
`all` is the command but for Python's start. A benchmark, not a test: the figures depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("op", nargs="?", default="decode")
    parser.add_argument("shape", nargs="?", default="B=1")
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for builds in ("built", "kept"):
            out = Path(home) / builds
            command = [sys.executable, "-m", "gdnbench", "run", "--op", typed.op, "-k", "all"]
            environment = {**os.environ, "XDG_CACHE_HOME": str(Path(home) / "cache")}
            quietly = ["--shape", typed.shape, "--yes", "--out", str(out), "--quiet", "--csv"]
            # Exit codes of verdicts are no failure here.
            subprocess.run([*command, *quietly], check=False, env=environment, stdout=subprocess.DEVNULL)
            (info,) = out.glob("*/run.json")
            seconds = json.loads(info.read_text())["seconds"]
            print(f"builds {builds}:", ", ".join(f"{phase} {taken:.1f} s" for phase, taken in seconds.items()))


if __name__ == "__main__":
    main()
