"""Groups into which threads commit asynchronous work: copies, bulk stores, products."""

from __future__ import annotations

import numpy as np

from gdnbench.ptx.ordering import IntArray


class Groups:
    """The commit groups of each lane; `done`, shape (lanes,), is the step up to which a lane's work is complete."""

    def __init__(self, lanes: int) -> None:
        self.done = np.zeros(lanes, dtype=np.int64)
        self._commits: list[IntArray] = []  # by group number: the step up to which it reaches, by lane
        self._count = np.zeros(lanes, dtype=np.int64)

    def commit(self, lanes: IntArray, now: int) -> None:
        """Makes a group of the work that lanes have begun and not yet committed."""
        self._count[lanes] += 1
        while len(self._commits) < int(self._count.max()):
            self._commits.append(np.zeros(len(self.done), dtype=np.int64))
        for number in np.unique(self._count[lanes]):
            self._commits[number - 1][lanes[self._count[lanes] == number]] = now

    def wait(self, lanes: IntArray, pending: int) -> None:
        """Completes all groups of each lane but the last `pending`."""
        last = self._count[lanes] - pending
        for number in np.unique(last[last > 0]):
            these = lanes[last == number]
            self.done[these] = np.maximum(self.done[these], self._commits[number - 1][these])
