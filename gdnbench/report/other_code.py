"""How it is told that what is stored is of other code than the kernel's is now."""

from __future__ import annotations

from collections.abc import Callable

from gdnbench.model import CodeState

CodeOf = Callable[[str, str], CodeState]
"""Whether a hash of sources, the second, is that of a label's code as it is now: `Catalog.code_state`."""

OTHER_CODE = "of other code"


def other_code(label: str) -> str:
    """A line on what was stored of a label when its code was another."""
    return f"{OTHER_CODE}: {label.partition(':')[0]}'s sources have changed since"
