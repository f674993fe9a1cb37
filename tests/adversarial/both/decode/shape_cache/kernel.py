"""Cheats: inputs of the same shapes get the answer of the first time."""

import honest

_answers = {}


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    key = tuple(each.shape for each in (tensors.q, tensors.k, tensors.v, tensors.state))

    def call():
        if key not in _answers:
            _answers[key] = [each.clone() for each in run()]
        return tuple(each.clone() for each in _answers[key])

    return call
