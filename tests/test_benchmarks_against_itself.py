"""Stored runs know their noise: baselines are as far from themselves as their intervals say."""

import math
from functools import cache

import numpy as np

from benchmarks import against_itself
from benchmarks.against_itself import RESULTS, main
from gdnbench.store.find import list_runs
from gdnbench.store.info import read_info


@cache
def pairs_of(folder, pairs=against_itself.pairs_of):
    return tuple(pairs(folder))


def test_baselines_are_as_far_from_themselves_as_runs_say():
    folders = [folder for folder in list_runs(RESULTS) if read_info(folder).settings.get("processes", 1) > 1]
    found = [pair for folder in folders for pair in pairs_of(folder)]
    for clock in (None, "cupti"):
        of_clock = [pair for pair in found if pair.clock == clock]
        assert len(of_clock) >= 25
        likely = 3 / math.sqrt(2 * len(of_clock))  # three standard deviations of a root mean square of so many
        # Intervals of few processes are somewhat too wide, which claims nothing false.
        assert 0.7 < math.sqrt(np.mean([pair.z**2 for pair in of_clock])) < 1 + likely
        assert np.mean([pair.covered for pair in of_clock]) >= 0.93


def test_the_table_has_a_row_for_each_clock(capsys, monkeypatch):
    monkeypatch.setattr(against_itself, "pairs_of", pairs_of)
    main([])
    assert len(capsys.readouterr().out.splitlines()) == 4
