"""Sources that are linted where they stand, as kernels of the op `rows` of the specimens."""

import shutil
from pathlib import Path

from gdnbench.catalog.catalog import load_catalog
from gdnbench.lint.check import lint_kernels

SPECIMENS = Path(__file__).parent / "specimens" / "lint"

_TRITON = """\"\"\"A test's.\"\"\"
from gdnbench import Param, TritonKernel, TritonLaunch
kernel = TritonKernel(name="test-source", {declared})
"""
_ROWS = "grid=lambda workload, p: (workload.M,)"
_IMPORTS = "import triton\nimport triton.language as tl\n"


def lint_specimen(name):
    """The result for a kernel of the specimens."""
    return lint_kernels(load_catalog([SPECIMENS]), ["rows"], name)


class Bench:
    """A copy of the op without kernels, into which a test puts one."""

    def __init__(self, folder):
        self.root = folder / "kernels"
        (self.root / "rows" / "mine").mkdir(parents=True)
        for name in ("op.py", "numerics.py"):
            shutil.copy(SPECIMENS / "rows" / name, self.root / "rows")

    def triton(self, source, declared=_ROWS, label="test-source"):
        """The findings in Triton functions."""
        return self._lint("kernel.py", _IMPORTS + source, _TRITON.format(declared=_with_entry(declared)), label)

    def _lint(self, file, source, variant, label):
        folder = self.root / "rows" / "mine"
        (folder / file).write_text(source)
        (folder / "variant.py").write_text(variant)
        catalog = load_catalog([self.root])
        assert not catalog.broken, catalog.broken
        return lint_kernels(catalog, ["rows"], label)


def _with_entry(declared):
    return declared if "launches" in declared else f'entry="rows", {declared}'


def codes(result):
    """The code and the line of each finding."""
    return [(finding.code, finding.place.line) for finding in result.findings]
