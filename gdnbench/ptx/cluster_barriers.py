"""The barrier of a cluster's blocks, at which threads arrive and later wait, and the accesses that it orders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class ClusterBarriers:
    """The barriers of all clusters; `known`, shape (lanes,), is how many phases a lane knows to be complete.

    A thread that has waited for a phase is ordered after what the cluster's other threads did before they arrived; it
    may still race with what they did between arrival and wait.
    """

    def __init__(self, lanes: int, threads: int) -> None:
        """Makes the barriers of `lanes` lanes, in clusters of `threads` threads."""
        self._threads = threads
        clusters = lanes // threads
        self._cluster = np.arange(lanes) // threads
        self._phase = np.zeros(clusters, dtype=np.int64)
        self._arrivals = np.zeros(clusters, dtype=np.int64)
        self._awaited = np.zeros(lanes, dtype=np.int64)  # phases that are complete once the lane's is
        self._arrived = np.zeros((2, lanes), dtype=np.int64)  # step of the arrival by parity of the phase; 0 if relaxed
        self._came = np.zeros((2, lanes), dtype=np.int64)  # the same, relaxed or not
        self.known = np.zeros(lanes, dtype=np.int64)

    def has_arrived(self, lanes: IntArray) -> npt.NDArray[np.bool_]:
        """Returns whether lanes have arrived and not waited since."""
        return np.asarray(self._awaited[lanes] > self.known[lanes])

    def arrive(self, lanes: IntArray, now: int, *, is_relaxed: bool) -> None:
        """Makes lanes arrive in step `now`; a relaxed arrival orders nothing that the lane did before it."""
        clusters = self._cluster[lanes]
        phase = self._phase[clusters]
        self._awaited[lanes] = phase + 1
        self._arrived[phase & 1, lanes] = 0 if is_relaxed else now
        self._came[phase & 1, lanes] = now
        np.add.at(self._arrivals, clusters, 1)

    def complete(self, exited: npt.NDArray[np.bool_], now: int) -> bool:
        """Ends the phases at which all threads have arrived or ended; returns whether there is one."""
        absent = exited & (self._awaited <= self._phase[self._cluster])
        count = self._arrivals + np.bincount(self._cluster[absent], minlength=len(self._phase))
        done = (self._arrivals > 0) & (count >= self._threads)
        ended = np.flatnonzero(absent & done[self._cluster])
        for each in (self._arrived, self._came):
            each[self._phase[self._cluster[ended]] & 1, ended] = now
        self._phase[done] += 1
        self._arrivals[done] = 0
        return bool(done.any())

    def is_complete(self, lanes: IntArray) -> npt.NDArray[np.bool_]:
        """Returns whether the phases at which lanes arrived are complete."""
        return np.asarray(self._phase[self._cluster[lanes]] >= self._awaited[lanes])

    def learn(self, lanes: IntArray) -> None:
        """Records that lanes waited until the phases at which they arrived were complete."""
        self.known[lanes] = np.maximum(self.known[lanes], self._awaited[lanes])

    def came_after(self, lanes: IntArray, times: IntArray, phases: int) -> npt.NDArray[np.bool_]:
        """Returns whether lanes arrived at the last of `phases` phases after what they did in steps `times`."""
        return np.asarray(times < self._came[(phases - 1) & 1, lanes]) & (phases > 0)

    def is_ordered(self, lanes: IntArray, others: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
        """Returns whether accesses of `others` in steps `times` precede what lanes do now.

        Others are numbered in this part of the grid, and may lie outside of it.
        """
        inside = (others >= 0) & (others < len(self._cluster))
        others = np.where(inside, others, 0)
        known = self.known[lanes]
        same = inside & (self._cluster[lanes] == self._cluster[others]) & (known > 0)
        return np.asarray(same & (times < self._arrived[(known - 1) & 1, others]))
