"""Cheats: writes to every open descriptor what a worker would tell of it."""

import contextlib
import os
import stat
import sys
from pathlib import Path

import honest

CHECKING = "gdnbench.verify.examine"
_TOLD = {
    "examined": '{{"kind":"Examined","case":"{case}","status":"ok"}}\n',
    "sampled": '{{"kind":"Sampled","round":1,"case":"{case}","times_us":[0.1,0.1,0.1,0.1,0.1]}}\n',
    "junk": "\n",
}


def _write_everywhere(line):
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            mode = os.fstat(int(entry.name)).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                os.write(int(entry.name), line.encode())


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    line = _TOLD[params.HOW].format(case=f"test-forges:HOW={params.HOW}/{workload}")
    calls = 0

    def forge():
        nonlocal calls
        calls += 1
        output, new_state = run()
        if params.HOW != "sampled":
            _write_everywhere(line)
            return output, new_state * 2
        if CHECKING not in sys.modules and calls > 1:  # the first is made when it is bound
            _write_everywhere(line)
        return output, new_state

    return forge
