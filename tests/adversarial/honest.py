"""The bundled reference, for kernels that are right but for one fault; the tests put this folder on PYTHONPATH."""

from gdnbench.catalog.catalog import default_roots
from gdnbench.launch.numerics import load_file

_reference = load_file(default_roots()[0] / "decode" / "reference" / "kernel.py")


def bind(tensors):
    """A call that computes the op's outputs, right and new each time."""
    return _reference.bind(tensors, None, None)
