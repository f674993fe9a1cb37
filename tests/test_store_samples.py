import csv

import numpy as np
import pandas as pd

from gdnbench.store.samples import RoundRow, RoundSamples, write_rounds, write_samples


def test_every_sample_is_kept_with_its_case_round_and_clock(tmp_path):
    told = RoundSamples(
        "a/B1", 1, np.array([4.0, 4.032]), np.array([1980.0, 1965.0]), np.array([31, 0]), np.array([7, 8])
    )
    write_samples(tmp_path, [told, RoundSamples("b/B1", 1, np.array([5.0]))])
    frame = pd.read_parquet(tmp_path / "samples.parquet")
    assert frame["case"].tolist() == ["a/B1", "a/B1", "b/B1"]
    assert frame["time_us"].tolist() == np.float32([4.0, 4.032, 5.0]).tolist()
    assert frame["sm_mhz"].tolist()[:2] == [1980.0, 1965.0]
    assert np.isnan(frame["sm_mhz"].iloc[2])
    assert frame["placement"].tolist() == [31, 0, -1]
    assert frame["output_placement"].tolist() == [7, 8, -1]


def test_rounds_are_tidy(tmp_path):
    row = RoundRow(
        run_id="r", case="a/B1", timer="cpu", round=1, process=2, samples=500, time_us=4.05, mean_us=4.07,
        median_us=4.0321, sm_mhz=None, low_clock=False,
    )  # fmt: skip
    write_rounds(tmp_path, [row])
    with (tmp_path / "rounds.csv").open(newline="") as file:
        (found,) = csv.DictReader(file)
    assert (found["median_us"], found["sm_mhz"], found["low_clock"]) == ("4.0321", "", "False")
    assert (found["process"], found["mean_us"]) == ("2", "4.07")
