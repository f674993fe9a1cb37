"""On a GPU an entry is closed by the error there, by a run's kernel time, and by the cycles of a phase."""

import json

import pytest

pytestmark = pytest.mark.gpu
pytest_plugins = ["ledger_data"]


def test_what_a_gpu_measures_closes_an_entry(home, draft, begin, close, command_line):
    begin("error <= 8 ulp and registers <= 255 and phase update >= 1 cycles", kernel="decode-mine")
    assert command_line("proton", "decode-mine", "--shape", "B=1")[0] == 0
    closed = close(run="")
    assert closed["state"] == "confirmed", json.dumps(closed)
    error = closed["closings"][0]["findings"][0]
    assert "interpreter" not in error["how"]
    begin("kernel time >= 0.1us and time <= 1000us at B=1", kernel="decode-mine")
    assert command_line("run", "--kernel", "decode-mine,decode-v4", "--shape", "B=1", "--label", "try-2")[0] == 0
    assert close(number=2, run="try-2")["state"] == "confirmed"
