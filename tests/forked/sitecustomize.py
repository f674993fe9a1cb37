"""On the path of a process: its commands fork their workers from the process that forks those of all tests."""

import os
import sys
from pathlib import Path

_TESTS = str(Path(__file__).resolve().parents[1])

_FOLDER, _, _SUPERVISION = os.environ.get("GDNBENCH_TESTS_FORK_FROM", "").partition(":")


class _Finder:
    """Patches the module that starts workers where it is imported: most processes never do."""

    def find_spec(self, name, _path=None, _target=None):
        if name != _SUPERVISION:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        load = spec.loader.exec_module

        def load_and_patch(module):
            if _TESTS not in sys.path:  # a worker forked from this process has its asker's paths
                sys.path.append(_TESTS)
            from forked_workers import ForkedWorkers

            load(module)
            module.Worker = ForkedWorkers(Path(_FOLDER))

        spec.loader.exec_module = load_and_patch
        return spec


if _FOLDER:
    sys.meta_path.insert(0, _Finder())
