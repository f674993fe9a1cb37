"""Cheats: a limit for persisting lines and an access policy window keep its state in the L2 through every flush."""

import torch
from cuda.bindings import runtime

import honest


def _checked(result):
    error, *rest = result
    if error != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(f"the L2 takes no policy: {error.name}")
    return rest


def _persist(tensor):
    nbytes = tensor.numel() * tensor.element_size()
    _checked(runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitPersistingL2CacheSize, nbytes))
    attribute = runtime.cudaStreamAttrValue()
    window = attribute.accessPolicyWindow
    window.base_ptr, window.num_bytes, window.hitRatio = tensor.data_ptr(), nbytes, 1.0
    window.hitProp = runtime.cudaAccessProperty.cudaAccessPropertyPersisting
    window.missProp = runtime.cudaAccessProperty.cudaAccessPropertyStreaming
    kind = runtime.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow
    _checked(runtime.cudaStreamSetAttribute(torch.cuda.current_stream().cuda_stream, kind, attribute))


def bind(tensors, workload, params):
    _persist(tensors.state)
    return honest.bind(tensors)
