"""Cheats: whoever comes with the same addresses again gets the answer of the first time."""

import honest

_answers = {}


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    key = tuple(each.data_ptr() for each in (tensors.q, tensors.k, tensors.v, tensors.state))

    def call():
        if honest.is_captured(tensors):  # a graph without launches would tell
            return run()
        return honest.answer_again(run, _answers, key)

    return call
