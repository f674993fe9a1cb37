"""The workload at which tests compile a kernel of the catalog."""

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.model.workload import Workload


def able_workload(entry: CatalogEntry) -> Workload:
    """The op's default, or the first of its suites' that the kernel can do."""
    return next(
        each for each in (entry.op.default, *entry.op.suite_workloads) if not entry.kernel.unsupported_reason(each)
    )
