"""The memory of a module, which its variables lie in: it is there from its loading on, whichever launches follow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gdnbench.ptx.program import Variable
from gdnbench.ptx.segments import MemorySegment, tensor_address


class ModuleMemory:
    """The `__device__` and `__constant__` variables of a module, as launches have left them.

    Args:
        variables: of the module; those in other spaces are passed over.

    Attributes:
        segments: their memory, which a launch has before its tensors, so that they keep their addresses.
        addresses: of each, by name.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        kept = [each for each in variables if each.space in {"global", "const"}]
        self.segments = tuple(_segment(each) for each in kept)
        self.addresses = {each.name: tensor_address(number) for number, each in enumerate(kept)}

    def content(self) -> bytes:
        """All that is in it now."""
        return b"".join(each.data.tobytes() for each in self.segments)


def _segment(variable: Variable) -> MemorySegment:
    data = np.frombuffer(variable.content.ljust(variable.nbytes, b"\0"), dtype=np.uint8).copy()
    return MemorySegment(f"`{variable.name}`", data, 1)
