"""A gather and a scatter in eager torch."""


def bind(tensors, workload, params):
    del workload, params

    def call():
        tensors.new_pool[tensors.target.long()] = tensors.new_pool[tensors.source.long()]
        return (tensors.new_pool,)

    return call
