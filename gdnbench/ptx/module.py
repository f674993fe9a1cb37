"""Memory of a module's variables, which lasts from its loading through all launches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gdnbench.ptx.program import Variable
from gdnbench.ptx.segments import MemorySegment, tensor_address


class ModuleMemory:
    """The `__device__` and `__constant__` variables of a module, as launches have left them.

    A launch has `segments` before its tensors, so that the variables keep their `addresses`, which go by name.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        kept = [each for each in variables if each.space in {"global", "const"}]
        self.segments = tuple(_segment(each) for each in kept)
        self.addresses = {each.name: tensor_address(number) for number, each in enumerate(kept)}

    def content(self) -> bytes:
        """Returns the bytes of all variables."""
        return b"".join(each.data.tobytes() for each in self.segments)


def _segment(variable: Variable) -> MemorySegment:
    data = np.frombuffer(variable.content.ljust(variable.nbytes, b"\0"), dtype=np.uint8).copy()
    return MemorySegment(f"`{variable.name}`", data, 1)
