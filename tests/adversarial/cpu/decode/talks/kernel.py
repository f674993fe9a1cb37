"""Right and loud: no output of a kernel may reach the results, fill a pipe or look like an event."""

import sys

import honest

_PAGE = b'{"kind":"Refused","message":"ha","hint":""}\n' + b"\x00\xff\n" + 50 * b"thinking aloud \n"


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        sys.stdout.buffer.write(_PAGE)
        sys.stderr.write("more\n")
        return run()

    return call
