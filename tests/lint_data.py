"""Sources that are linted where they stand, as kernels of the op `rows` of the specimens."""

import shutil
from pathlib import Path

from gdnbench.catalog.catalog import load_catalog
from gdnbench.lint.check import lint_kernels

SPECIMENS = Path(__file__).parent / "specimens" / "lint"

_TRITON = """\"\"\"A test's.\"\"\"
from gdnbench import Param, TritonKernel
kernel = TritonKernel(
    name="test-source", entry="rows", params={"STAGES": Param(default=1, choices=(1, 2))}, grid=lambda workload, p: (1,)
)
"""
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

    def triton(self, source):
        """The findings in Triton functions, of which `rows` is the kernel."""
        folder = self.root / "rows" / "mine"
        (folder / "kernel.py").write_text(_IMPORTS + source)
        (folder / "variant.py").write_text(_TRITON)
        catalog = load_catalog([self.root])
        assert not catalog.broken, catalog.broken
        return lint_kernels(catalog, ["rows"], "test-source")


def lines_of(result):
    """The line of each finding."""
    return [finding.place.line for finding in result.findings]
