"""The barrier of a cluster's blocks, at which threads arrive and later wait, and what it orders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class ClusterBarriers:
    """The barriers of all clusters.

    A thread that has waited for a phase is ordered after what the others of its cluster did before they arrived at it;
    what they did between their arrival and their wait it may still race with.

    Attributes:
        known: shape (lanes,), phases that a lane knows to be complete.
    """

    def __init__(self, lanes: int, threads: int) -> None:
        """Sets up.

        Args:
            lanes: how many there are.
            threads: of a cluster.
        """
        self._threads = threads
        clusters = lanes // threads
        self._cluster = np.arange(lanes) // threads
        self._phase = np.zeros(clusters, dtype=np.int64)
        self._arrivals = np.zeros(clusters, dtype=np.int64)
        self._awaited = np.zeros(lanes, dtype=np.int64)  # phases that are complete when the lane's own is
        self._arrived = np.zeros((2, lanes), dtype=np.int64)  # step of the arrival, by whether the phase is odd
        self._came = np.zeros((2, lanes), dtype=np.int64)  # likewise, whatever it orders
        self.known = np.zeros(lanes, dtype=np.int64)

    def has_arrived(self, lanes: IntArray) -> npt.NDArray[np.bool_]:
        """Whether lanes have arrived, and not waited since."""
        return np.asarray(self._awaited[lanes] > self.known[lanes])

    def arrive(self, lanes: IntArray, now: int, *, is_relaxed: bool) -> None:
        """Lanes arrive in a step; a relaxed arrival orders nothing that the lane did before it."""
        clusters = self._cluster[lanes]
        phase = self._phase[clusters]
        self._awaited[lanes] = phase + 1
        self._arrived[phase & 1, lanes] = 0 if is_relaxed else now
        self._came[phase & 1, lanes] = now
        np.add.at(self._arrivals, clusters, 1)

    def complete(self, exited: npt.NDArray[np.bool_], now: int) -> bool:
        """Ends the phases at which all have arrived; whether there is one. Threads that have ended count as arrived."""
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
        """Whether the phases at which lanes arrived are."""
        return np.asarray(self._phase[self._cluster[lanes]] >= self._awaited[lanes])

    def learn(self, lanes: IntArray) -> None:
        """Lanes have waited until the phases at which they arrived were complete."""
        self.known[lanes] = np.maximum(self.known[lanes], self._awaited[lanes])

    def came_after(self, lanes: IntArray, times: IntArray, phases: int) -> npt.NDArray[np.bool_]:
        """Whether lanes came, after what they did in some steps, to the last of so many phases."""
        return np.asarray(times < self._came[(phases - 1) & 1, lanes]) & (phases > 0)

    def is_ordered(self, lanes: IntArray, others: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
        """Whether accesses of other lanes of this part of the grid lie before what lanes do now."""
        inside = (others >= 0) & (others < len(self._cluster))
        others = np.where(inside, others, 0)
        known = self.known[lanes]
        same = inside & (self._cluster[lanes] == self._cluster[others]) & (known > 0)
        return np.asarray(same & (times < self._arrived[(known - 1) & 1, others]))
