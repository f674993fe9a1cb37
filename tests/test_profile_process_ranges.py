"""The names of NVTX ranges are read back as they were written."""

import pytest
from decode_workloads import decode_at

from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.profile.process import parse_range_name, range_name

WORKLOADS = [decode_at(), decode_at(B=256, HQ=16, HV=32), decode_at(B=3, K=64, V=256)]


def _case(label, workload):
    return Case(Variant("decode-triton", label, params=Params({})), workload)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_a_ranges_name_is_read_back(label, workload):
    assert parse_range_name(range_name("decode", _case(label, workload))) == ("decode", label, workload, "")
    source = "0123456789abcdef"
    assert parse_range_name(range_name("decode", _case(label, workload), source)) == ("decode", label, workload, source)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decode v4 B=0 qk4_v8",
        f"decode v4 B={'9' * 5000} qk4_v8",
        "decode v4 B=1 qk4_v8 source=0123",
        "decode v4 B=1 qk4_v8 source=0123456789ABCDEF",
    ],
)
def test_ranges_of_others(text):
    assert parse_range_name(text) is None
