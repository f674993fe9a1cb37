"""The bundled reference, for kernels that are right but for one fault; the tests put this folder on PYTHONPATH."""

import os
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from gdnbench.catalog.catalog import default_roots
from gdnbench.launch.numerics import load_file

_reference = load_file(default_roots()[0] / "decode" / "reference" / "kernel.py")


def bind(tensors, **other):
    """A call that computes the op's outputs, right and new each time; `other`: tensors in place of those of a name."""
    return _reference.bind(SimpleNamespace(**{**vars(tensors), **other}), None, None)


def bind_given(tensors):
    """The same into the outputs that were given."""
    run = bind(tensors)

    def call():
        output, new_state = run()
        return tensors.output.copy_(output), tensors.new_state.copy_(new_state)

    return call


def times(state, row):
    """The state [B, HV, V, K] times a row for each head [B, HV, K]."""
    return (state * row[:, :, None, :]).sum(-1)


def compute(t, *, rate=None, exp=torch.exp, times=times):
    """The op written out, for those with other arithmetic; `rate`: e^A_log where that is known already."""
    share = t.v.shape[2] // t.q.shape[2]
    q, k = (each[:, 0].float().repeat_interleave(share, dim=1) for each in (t.q, t.k))
    rate = torch.exp(t.A_log) if rate is None else rate
    g = exp(-rate * F.softplus(t.a[:, 0].float() + t.dt_bias))
    decayed = g[:, :, None, None] * t.state
    delta = torch.sigmoid(t.b[:, 0].float())[:, :, None] * (t.v[:, 0].float() - times(decayed, k))
    new_state = decayed + delta[:, :, :, None] * k[:, :, None, :]
    return (t.scale * times(new_state, q))[:, None].to(t.v.dtype), new_state


def answer_again(run, answers, key):
    """What `run` returned when it was first called for a key: copies of what `answers` keeps."""
    if key not in answers:
        answers[key] = [each.clone() for each in run()]
    return tuple(each.clone() for each in answers[key])


HONEST_CALLS = 60  # more than the preflight makes
CALLS_VARIABLE = "CHEATS_CALLS"  # names a folder

_calls: dict[str, int] = {}


def count_call(kernel):
    """Counts a call of a kernel and returns how many there were.

    They are those of this process, or, where a folder for them is named, of all workers of a run: one that ends because
    some other kernel was found out would else let this one begin anew, too late to be wrong before the run ends.
    """
    if CALLS_VARIABLE not in os.environ:
        _calls[kernel] = _calls.get(kernel, 0) + 1
        return _calls[kernel]
    file = _open(Path(os.environ[CALLS_VARIABLE]) / kernel)
    os.write(file, b".")
    return os.fstat(file).st_size


@cache
def _open(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def is_timed(kernel):
    """Whether a kernel has been called more often than the preflight does; counts its calls."""
    return count_call(kernel) > HONEST_CALLS


def is_captured(tensors):
    """Whether launches go into a CUDA graph now, in which a cheat had better be honest."""
    return tensors.state.is_cuda and torch.cuda.is_current_stream_capturing()
