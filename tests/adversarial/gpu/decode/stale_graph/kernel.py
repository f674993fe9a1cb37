"""Cheats: a CUDA graph of copies of the first inputs, whose replay is quick to launch and looks at nothing new."""

import torch

import honest

_graphs = {}


def _capture(tensors):
    copies = {name: each.clone() if torch.is_tensor(each) else each for name, each in vars(tensors).items()}
    run = honest.bind(tensors, **copies)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = run()
    return graph, outputs, copies  # held: the graph reads them at each replay


def bind(tensors, workload, params):
    run, key = honest.bind(tensors), tensors.state.data_ptr()
    if key not in _graphs:
        _graphs[key] = _capture(tensors)
    graph, outputs, _ = _graphs[key]

    def call():
        if honest.is_captured(tensors):  # a graph is not replayed into another
            return run()
        graph.replay()
        return tuple(each.clone() for each in outputs)

    return call
