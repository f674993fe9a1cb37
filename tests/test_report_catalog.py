"""What `gdnbench list` shows of a dispatcher: what it picks where, and why a table is broken."""

import json
import re

import pytest
from clocks_data import store_clocks
from dispatch_data import write_dispatcher
from history_data import store_run

TABLE = """
[h200.qk4_v8]
source = "20260102-030405-h200-decode"
B8 = { kernel = "decode-v6" }
B1 = { kernel = "decode-v4", WARPS = 2 }

[b200.qk16_v32]
source = "20260102-040506-b200-decode"
B1 = { kernel = "decode-fla" }
"""


@pytest.fixture
def listed(command_line, tmp_path, monkeypatch):
    """Lists the bundled kernels and a dispatcher with a table."""
    folder = write_dispatcher(tmp_path)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))

    def show(*form, table=TABLE):
        (folder / "dispatch.toml").write_text(table)
        code, out, err = command_line("list", *(form or ["decode-mine"]))
        assert (code, err) == (0, "")
        return out

    return show


def test_a_dispatcher_shows_what_it_picks_where_in_the_order_of_workloads(listed):
    text = " ".join(listed().split())
    assert "h200: B=1 qk4_v8 decode-v4 WARPS=2; B=8 qk4_v8 decode-v6 WARPS=8" in text
    assert "b200: B=1 qk16_v32 decode-fla" in text
    assert max(map(len, listed().splitlines())) <= 80


def test_of_several_runs_only_what_is_comparable_over_runs_is_shown(command_line, tmp_path):
    store_clocks(tmp_path)  # decode-v4 takes 4.600 µs, of which the kernel takes 2.336
    store_run(tmp_path, 1, {"decode-v9": 5.0}, gpu="b200", sd=0.0)
    _, out, _ = command_line("list", "--op", "decode", "--out", tmp_path, columns="160")
    assert re.search(r"decode-v4 +cuda +h200 +2\.336\*? +1\.153\*? +20260102-030405-h200 ", out)
    assert re.search(r"decode-v9 +cuda +b200 +1\.250\*? +20260103-030405-b200 ", out)
    assert "4.6" not in out
    documents = {each["kernel"]: each for each in json.loads(command_line("list", "--out", tmp_path, "--json")[1])}
    v4, v9 = documents["decode-v4"], documents["decode-v9"]
    assert (v4["last_time_us"], v4["kernel_us"], v4["over_copy"]) == (4.6, 2.336, pytest.approx(4.6 / 3.99))
    assert (v9["last_time_us"], v9["kernel_us"]) == (5.0, None)
    assert v4["comparable_in_one_run_alone"] == ["last_time_us"]
    in_full = " ".join(command_line("list", "decode-v4", "--out", tmp_path)[1].split())
    assert "kernel time 2.336 µs; 1.153 times the copying floor's stream time; stream time 4.600 µs" in in_full


def test_a_table_that_cannot_hold_is_shown_as_broken_with_the_reason(listed):
    text = " ".join(listed("--op", "decode", table=TABLE.replace("decode-v6", "decode-v66")).split())
    assert "broken decode/mine: dispatch.toml [h200.qk4_v8] B8: there is no kernel decode-v66" in text
