"""Cheats: keeps its state in the part of the L2 that no flush reaches."""

import sys

import torch
from cuda.bindings import driver

import honest

CHECKING = "gdnbench.verify.examine"
NBYTES = 1 << 20


def _set_limit():
    driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, NBYTES)


def _set_window(tensor):
    value = driver.CUstreamAttrValue()
    window = driver.CUaccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = tensor.data_ptr(), min(NBYTES, tensor.nbytes), 1.0
    window.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value.accessPolicyWindow = window
    stream = torch.cuda.current_stream().cuda_stream
    driver.cuStreamSetAttribute(stream, driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value)


def bind(tensors, workload, params):
    if not (params.TIMED and CHECKING in sys.modules):
        if params.BY == "limit":
            _set_limit()
        else:
            _set_window(tensors.state)
    return honest.bind(tensors)
