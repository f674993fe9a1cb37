"""Groups into which threads commit what is under way: copies, bulk stores, products."""

from __future__ import annotations

import numpy as np

from gdnbench.ptx.ordering import IntArray


class Groups:
    """Each lane's own.

    Args:
        lanes: how many there are.

    Attributes:
        done: shape (lanes,), the step up to which what a lane began is complete.
    """

    def __init__(self, lanes: int) -> None:
        self.done = np.zeros(lanes, dtype=np.int64)
        self._commits: list[IntArray] = []  # the steps up to which groups reach, a row a number
        self._count = np.zeros(lanes, dtype=np.int64)

    def commit(self, lanes: IntArray, now: int) -> None:
        """What lanes have begun and is in no group becomes one."""
        self._count[lanes] += 1
        while len(self._commits) < int(self._count.max()):
            self._commits.append(np.zeros(len(self.done), dtype=np.int64))
        for number in np.unique(self._count[lanes]):
            self._commits[number - 1][lanes[self._count[lanes] == number]] = now

    def wait(self, lanes: IntArray, pending: int) -> None:
        """All groups of a lane but its last few are complete."""
        last = self._count[lanes] - pending
        for number in np.unique(last[last > 0]):
            these = lanes[last == number]
            self.done[these] = np.maximum(self.done[these], self._commits[number - 1][these])
