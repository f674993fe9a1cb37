"""Cheats: each way replaces something between the kernel and its verdict."""

import sys
import time

import torch

import honest

HONEST_CALLS = 40  # more than the preflight makes


def _passing(gates):
    from dataclasses import replace

    from gdnbench.model.status import Status

    return tuple(replace(gate, worst=0.0, status=Status.OK, wrong=None) for gate in gates)


def _replace_gates():
    examine = sys.modules["gdnbench.verify.examine"]
    verify = examine.verify_kernel
    examine.verify_kernel = lambda *arguments, **named: _passing(verify(*arguments, **named))


def _replace_code():
    from gdnbench.verify import gates

    def passed(name, scenario, *_tensors):
        return GateResult(name, scenario, 0.0, 0.0, "", Status.OK)  # noqa: F821 - they are where the code goes

    gates.unchanged_gate.__code__ = passed.__code__


def _replace_torch():
    torch.Tensor.double = lambda self: self


def _replace_channel():
    from gdnbench.process.channel import Channel

    send = Channel.send

    def send_what_suits(self, message):
        if "unchanged" not in str(message):
            send(self, message)

    Channel.send = send_what_suits


def _slow_the_clock():
    clock, begun = time.perf_counter, time.perf_counter()
    time.perf_counter = lambda: begun + (clock() - begun) / 2


_AT_ONCE = {"gates": _replace_gates, "code": _replace_code, "torch": _replace_torch, "channel": _replace_channel}


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    calls = 0
    if params.HOW in _AT_ONCE:
        _AT_ONCE[params.HOW]()

        def wrong():
            output, new_state = run()
            return output, new_state * 2

        return wrong

    def late():
        nonlocal calls
        calls += 1
        if calls == HONEST_CALLS:
            _slow_the_clock()
        return run()

    return late
