"""What only ptxas's log tells of a kernel: that it serializes Hopper's warpgroup products.

Where ptxas cannot keep the products of a function in flight (`wgmma.mma_async`), it waits for each before the next. The
machine code is then that of a source which waits for each itself, so only the log tells the two apart.
"""

from __future__ import annotations

import re

# Each reason has a code of its own, C7510 and further, and all are worded alike. They differ in `in` or `for` alone.
_SERIALIZED = re.compile(r"wgmma\.mma_async instructions are serialized due to (.+?) (?:in|for) the function '([^']+)'")


def serialized_because(log: str, symbol: str) -> str:
    """Returns why ptxas serializes the warpgroup products of a kernel, in its own words, or an empty text.

    `log` is what ptxas wrote for the kernel's module, and `symbol` the kernel's mangled name.
    """
    reasons = (" ".join(reason.split()) for reason, function in _SERIALIZED.findall(log) if function == symbol)
    return ", ".join(dict.fromkeys(reasons))
