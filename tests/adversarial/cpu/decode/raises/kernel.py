"""Wrong: raises, with a message that a careless table would take for markup."""


def bind(tensors, workload, params):
    def call():
        raise ValueError("no [/bold] tile [red] fits")

    return call
