"""What ptxas tells of a kernel in its log and nowhere else: that it serializes Hopper's warpgroup products.

Where ptxas cannot keep the products of a function in flight (`wgmma.mma_async`), it waits for each before the next.
The machine code is then that of a source which waits for each itself, so only the log tells the two apart.
"""

from __future__ import annotations

import re

# Each reason has a code of its own, C7510 and further, and all are worded alike. They differ in `in` or `for` alone.
_SERIALIZED = re.compile(r"wgmma\.mma_async instructions are serialized due to (.+?) (?:in|for) the function '([^']+)'")


def serialized_because(log: str, symbol: str) -> str:
    """Why ptxas serializes a kernel's warpgroup products, in its own words; empty where it does not.

    Args:
        log: what ptxas wrote while it compiled the kernel's module.
        symbol: the kernel's mangled name.
    """
    reasons = (" ".join(reason.split()) for reason, function in _SERIALIZED.findall(log) if function == symbol)
    return ", ".join(dict.fromkeys(reasons))
