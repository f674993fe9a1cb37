"""How long a first look takes on a machine without a GPU: `gdnbench verify` of all kernels, `gdnbench run --quick`.

Prints each twice: with an empty build cache, and with what the first one left. A benchmark, not a test: the figures
depend on the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = (("verify", "all", "--gpu", "cpu"), ("run", "--quick", "--gpu", "cpu"))


def main() -> None:
    for command in COMMANDS:
        with tempfile.TemporaryDirectory() as home:
            cold_s, warm_s = (_time_s(command, Path(home)) for _ in range(2))
        print(f"gdnbench {' '.join(command):26} empty cache {cold_s:5.1f} s, then {warm_s:5.1f} s")


def _time_s(command: tuple[str, ...], home: Path) -> float:
    environment = {**os.environ, "GDNBENCH_CACHE": str(home / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(home / "torch")}
    out = ("--out", str(home / "results")) if command[0] == "run" else ()
    start = time.perf_counter()
    words = [sys.executable, "-m", "gdnbench", *command, *out]
    subprocess.run(words, check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
