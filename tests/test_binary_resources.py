"""What `cuobjdump -res-usage` printed, read back."""

from pathlib import Path

import pytest

from gdnbench.binary import Resources
from gdnbench.binary.resources import parse_resources
from gdnbench.errors import MachineError, UsageError

DATA = Path(__file__).parent / "data" / "binary"
ONE = (DATA / "decode_v1_sm_90.res-usage").read_text()
SEVERAL = (DATA / "several_sm_100.res-usage").read_text()


def test_one_kernel():
    found = parse_resources(ONE, "gdn_decode_v1", "sm_90")
    assert found == Resources(registers=67, shared_bytes=0, stack_bytes=0, local_bytes=0)
    assert found.spill_bytes == 0


def test_the_kernel_named_is_read_and_not_another():
    assert parse_resources(SEVERAL, "k", "sm_100").registers == 32
    assert parse_resources(SEVERAL, "k2", "sm_100").registers == 8


def test_spills_are_stack_and_local_memory():
    assert parse_resources(SEVERAL, "k", "sm_100").spill_bytes == 1104 + 8


def test_what_the_system_reserves_of_shared_memory_is_not_the_kernels():
    assert parse_resources(SEVERAL, "k", "sm_100").shared_bytes == 256
    assert parse_resources(SEVERAL, "k", "sm_86").shared_bytes == 1280


@pytest.mark.parametrize(
    "text", ["", "Resource usage:\n Common:\n  GLOBAL:0\n", ONE.replace("STACK:0", "STACK:UNKNOWN")]
)
def test_what_is_not_told_is_an_error_and_no_zero(text):
    with pytest.raises(MachineError, match="does not tell"):
        parse_resources(text, "gdn_decode_v1", "sm_90")


@pytest.mark.parametrize("arch", ["90", "sm90", "sm_9", "gfx942", "sm_90x", ""])
def test_what_is_no_architecture(arch):
    with pytest.raises(UsageError, match="not an architecture"):
        parse_resources(ONE, "gdn_decode_v1", arch)
