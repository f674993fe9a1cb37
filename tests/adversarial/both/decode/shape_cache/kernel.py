"""Cheats: inputs of the same shapes get the answer of the first time."""

import honest

_answers = {}


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    key = tuple(each.shape for each in (tensors.q, tensors.k, tensors.v, tensors.state))
    return lambda: honest.answer_again(run, _answers, key)
