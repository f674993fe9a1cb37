"""Wrong: a thread's current stream is the default one, whatever stream its starter was given."""

import threading

import honest


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return tensors.output, tensors.new_state

    return call
