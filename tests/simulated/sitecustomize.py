"""On the path of a process: gdnbench finds the GPU that `simulated_workers` makes up."""

import importlib
import os

if os.environ.get("GDNBENCH_SIMULATED"):  # what it imports takes a second
    from simulated_workers import install

    def _patch(path, value):
        module, _, name = path.rpartition(".")
        setattr(importlib.import_module(module), name, value)

    install(_patch)
