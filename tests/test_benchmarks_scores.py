"""`benchmarks.scores` asks for kernels of the device that it is told, whatever else is there."""

import csv

import pytest

from benchmarks import scores
from gdnbench.model.gpu import Gpu

H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-1", capability=(9, 0))


@pytest.mark.parametrize(
    ("gpus", "words", "wanted"),
    [
        ([H200], ["--gpu", "cpu"], ("decode-reference", "test-slow", "cpu")),
        ([H200], [], ("decode-v9", "decode-fla", "auto")),
        ([], [], ("decode-reference", "test-slow", "cpu")),
    ],
)
def test_the_kernels_are_of_the_device_that_is_asked_for(tmp_path, monkeypatch, gpus, words, wanted):
    asked = []

    def score(kind, kernel, against, gpu):
        asked.append((kernel, against, gpu))
        return scores.Scored(kind, kernel, against, "same", 9, 1.0, 9, 1.0, 1.0, 1.0, 1, "")

    monkeypatch.setattr(scores, "list_gpus", lambda: gpus)
    monkeypatch.setattr(scores, "_score", score)
    scores.main(["--to", str(tmp_path), "--count", "1", *words])
    assert asked[0] == wanted
    assert {gpu for *_, gpu in asked} == {wanted[2]}
    assert len(list(csv.DictReader((tmp_path / "kinds.csv").open()))) == 6
