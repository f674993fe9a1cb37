"""Workloads of `decode`, without its op."""

from gdnbench.model.workload import Workload
from gdnbench.store.schema import DECODE_AXES


def decode_at(**sizes: int) -> Workload:
    """The workload with these sizes, and the op's defaults for the rest."""
    return DECODE_AXES.workload(sizes)
