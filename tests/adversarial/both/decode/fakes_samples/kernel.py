"""Cheats: writes messages of its own to every pipe and socket of the process, one of which leads to the parent."""

import contextlib
import json
import os
import stat
import sys
from pathlib import Path

import honest

ROUNDS = 50


def _sampled(case):
    for number in range(ROUNDS):
        yield {"kind": "Sampled", "round": number, "case": case, "times_us": [0.5] * 64}


def _examined(case):
    yield {"kind": "Examined", "case": case, "status": "ok", "warm_us": 1.0, "launches": 1}


_MESSAGES = {"samples": _sampled, "verdict": _examined}


def _channels():
    for descriptor in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):
            mode = os.fstat(descriptor).st_mode
            if descriptor > 2 and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
                yield descriptor


def _case_of(params):
    """The id of its case, from the task's file: label, then workload."""
    cases = json.loads(Path(sys.argv[1]).read_text())["cases"]
    case = next(each for each in cases if each["label"].startswith(f"test-fakes-samples:HOW={params.HOW}"))
    return f"{case['label']}/{'_'.join(f'{axis}{size}' for axis, size in case['shape'].items())}"


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        lines = "".join(json.dumps(each) + "\n" for each in _MESSAGES[params.HOW](_case_of(params)))
        for descriptor in _channels():
            with contextlib.suppress(OSError):
                os.write(descriptor, lines.encode())
        if params.HOW == "verdict":
            os._exit(0)  # nobody is left to contradict it
        return run()

    return call
