import math
import os

import pytest

from gdnbench.bench.events import Channel, Examined, HostTimes, Refused, Sampled, Started, Step, decode, encode
from gdnbench.model import GateResult, Status

GATE = GateResult("output within 1 ulp", "typical", math.inf, 1.0, "[0, 3]", Status.WRONG_NUMBERS)
EVENTS = [
    Started("NVIDIA H200", 132, 62914560),
    Step("decode-v4/B1", "verify typical", 60.0),
    Step("", "load torch", 180.0),
    Examined("decode-v4/B1", Status.OK, launches=1, warm_us=3.25),
    Examined("decode-x/B1", Status.WRONG_NUMBERS, 'two\nlines, "quoted", ünïcödé', (GATE,), poisoned=True),
    Sampled(3, "decode-v4/B1", (4.0, 4.032), (1980.0, 1965.0)),
    Sampled(0, "decode-v4/B1", ()),
    HostTimes({"decode-v4/B1": 21.5}),
    Refused("cuda-bench does not load", "see `gdnbench doctor`"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_as_one_line(event):
    line = encode(event)
    assert "\n" not in line
    assert decode(line) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_line_cut_off_anywhere_is_no_event(event):
    line = encode(event)
    for size in range(len(line)):
        with pytest.raises(ValueError, match="not an event"):
            decode(line[:size])


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "{}",
        "[]",
        "null",
        "3",
        '"text"',
        "true",
        '{"kind": "Nonsense"}',
        '{"kind": ["Step"]}',
        '{"kind": null}',
        '{"kind": "Step"}',
        '{"kind": "Step", "case": "a", "step": "b", "limit_s": "soon"}',
        '{"kind": "Sampled", "round": -1, "case": "a", "times_us": [1.0]}',
        '{"kind": "Sampled", "round": 100000000000, "case": "a", "times_us": [1.0]}',
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": [NaN]}',
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": [-5.0]}',
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": [1e308]}',
        "[" * 100000,
        '{"kind": "Sampled", "round": 1, "case": "a", "times_us": null, "sm_mhz": []}',
        '{"kind": "Examined", "case": "a", "status": "splendid", "gates": []}',
        '{"kind": "Examined", "case": "a", "status": "ok", "gates": [1]}',
    ],
)
def test_junk_is_no_event(line):
    with pytest.raises(ValueError, match="not an event"):
        decode(line)


def test_a_channel_delivers_whole_lines_however_long():
    read, write = os.pipe()
    os.set_blocking(read, False)
    try:
        for event in EVENTS:
            Channel(write).send(event)
        assert [decode(line) for line in os.read(read, 1 << 16).decode().splitlines()] == EVENTS
    finally:
        os.close(read)
        os.close(write)
