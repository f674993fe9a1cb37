"""NVIDIA's binary tools, which the triton wheel carries: they need neither a CUDA toolkit nor a GPU."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gdnbench.errors import MachineError

_TIMEOUT_S = 60.0


@cache
def cuobjdump() -> Path:
    """Where `cuobjdump` is: in the triton wheel, else on `PATH`.

    Raises:
        MachineError: if it is in neither.
    """
    # find_spec locates triton without running it; loading it takes half a second.
    spec = find_spec("triton")
    folders = [] if spec is None else (spec.submodule_search_locations or [])
    bundled = [Path(folder) / "backends/nvidia/bin/cuobjdump" for folder in folders]
    on_path = shutil.which("cuobjdump")
    found = [path for path in bundled if path.is_file()] or ([Path(on_path)] if on_path else [])
    if not found:
        raise MachineError("there is no cuobjdump to read cubins with", "pip install triton, whose wheel carries it")
    return found[0]


def run_cuobjdump(cubin: Path, *options: str) -> str:
    """What `cuobjdump` prints of a cubin.

    Raises:
        MachineError: if it is absent, or cannot read the cubin.
    """
    command = [str(cuobjdump()), *options, str(cubin)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip() or f"exit status {error.returncode}"
        raise MachineError(f"cuobjdump cannot read {cubin}: {said}", f"try by hand: {' '.join(command)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"cuobjdump failed: {error}", f"try by hand: {' '.join(command)}") from error
    return done.stdout
