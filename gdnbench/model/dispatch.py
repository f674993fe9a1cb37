"""The declaration of a dispatcher: a kernel that is another one at each shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gdnbench.errors import DeclarationError
from gdnbench.model.kernel import Kernel
from gdnbench.model.name import check_name


@dataclass(frozen=True, kw_only=True)
class DispatchKernel(Kernel):
    """A name for whichever kernel is the best at a shape: it picks one, with its params, from a table.

    It has no code of its own. Its source is the table, TOML, as `gdnbench sweep KERNELS --emit-dispatch` prints it;
    `catalog/dispatch.py` has the format.

    Raises:
        DeclarationError: if it declares what only the kernels that it picks can have.
    """

    language: ClassVar[str] = "dispatch"

    source: str = "dispatch.toml"
    entry: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)
        given = [
            name for name in ("entry", "params", "presets", "by_shape", "floor", "in_place") if getattr(self, name)
        ]
        if given:
            raise DeclarationError(f"{', '.join(given)}: a dispatcher has none, it takes those of the kernel it picks")
