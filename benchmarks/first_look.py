"""How long a first look takes on a machine without a GPU: `gdnbench verify` of one kernel and of all, `run --quick`.

`python -m benchmarks.first_look [KERNEL…]`: with kernels, only `verify` of these. Prints each twice: with an empty
build cache, and with what the first one left; behind it the seconds of the processor, which other work on the machine
stretches less. A benchmark, not a test: the figures depend on the machine. `first-look.txt` has what it printed of
decode-v1 on two cores that did much else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ONE = ("decode-v1", "decode-rowreg", "decode-triton")
COMMANDS = (("verify", "all"), ("run", "--quick"))


def main() -> None:
    named = sys.argv[1:]
    one = [("verify", name, *quick) for name in named or ONE for quick in ((), ("--quick",))]
    for command in (*one, *(() if named else COMMANDS)):
        with tempfile.TemporaryDirectory() as home:
            cold, warm = (_times_s((*command, "--gpu", "cpu"), Path(home)) for _ in range(2))
        told = "empty cache {:5.1f} s ({:5.1f} s), then {:5.1f} s ({:5.1f} s)".format(*cold, *warm)
        print(f"gdnbench {' '.join(command):30} {told}")


def _times_s(command: tuple[str, ...], home: Path) -> tuple[float, float]:
    """Seconds of a command as a process, and those of the processor, its workers' among them."""
    environment = {**os.environ, "GDNBENCH_CACHE": str(home / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(home / "torch")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users' Python compiles modules once
    out = ("--out", str(home / "results")) if command[0] == "run" else ()
    start, before = time.perf_counter(), os.times()
    words = [sys.executable, "-m", "gdnbench", *command, *out]
    subprocess.run(words, check=True, capture_output=True, env=environment)
    after = os.times()
    used_s = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - start, used_s


if __name__ == "__main__":
    main()
