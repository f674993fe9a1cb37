"""Recorded samples say which mean of a round is the same in every process."""

from benchmarks.location import RESULTS, TRIMS, main, spreads_of
from gdnbench.store.samples import SAMPLES
from gdnbench.store.settings import GPU_TRIM, INTERQUARTILE


def ratio(workload, trim):
    """By how much planted slowdowns differ between processes, over what their rounds explain."""
    found = [
        spread
        for samples in RESULTS.rglob(SAMPLES)
        for key, spread in spreads_of(samples.parent)
        if key == (workload, trim)
    ]
    assert len(found) == 8
    between, within = (sum(value**2 for value in values) ** 0.5 for values in zip(*found, strict=True))
    return between / within


def test_the_mean_that_rounds_have_differs_between_processes_by_chance_alone():
    for workload in ("B1_HQ4_HV8_K128_V128", "B8_HQ4_HV8_K128_V128"):
        assert ratio(workload, GPU_TRIM) < 1.3  # eight slowdowns of three processes, some of which share a baseline


def test_the_middle_half_does_not_at_batch_1():
    assert ratio("B1_HQ4_HV8_K128_V128", INTERQUARTILE) > 2


def test_the_table_has_a_row_for_each_workload_and_share(capsys):
    main([])
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2 * len(TRIMS)
