"""`--fail-on` as users write it, and the architectures that `--arch` means."""

import pytest

from gdnbench.errors import UsageError
from gdnbench.inspect.compiled import DEFAULT_ARCHS, choose_archs, gpu_size_of
from gdnbench.inspect.quantities import QUANTITIES, parse_rules
from gdnbench.model.gpu import Gpu

ADA = Gpu(0, "NVIDIA GeForce RTX 4090", "GPU-1", (8, 9), sms=128)


def test_rules_are_read():
    found = [(rule.key, rule.sign, rule.bound) for rule in parse_rules("spills, regs>64,smem>=48K,occupancy < 50%")]
    assert found == [("spills", ">", 0), ("regs", ">", 64), ("smem", ">=", 48 * 1024), ("occupancy", "<", 50)]


def test_no_rules():
    assert parse_rules("") == ()


@pytest.mark.parametrize(
    "text", ["regs>", "regs>>3", ">3", "regs>x", "spills,", "regs=3", "regs>3G", "speed", "Regs>3"]
)
def test_what_is_no_rule_is_told_what_is(text):
    with pytest.raises(UsageError) as caught:
        parse_rules(text)
    assert all(name in caught.value.hint for name in QUANTITIES)


def test_the_gpu_at_hand_decides_else_the_defaults():
    assert choose_archs("", [ADA, ADA]) == ("sm_89",)
    assert choose_archs("", []) == DEFAULT_ARCHS
    assert choose_archs("sm_86, sm_90,sm_86", [ADA]) == ("sm_86", "sm_90")


@pytest.mark.parametrize("text", ["sm_75", "h200", "90", ","])
def test_what_is_no_architecture(text):
    with pytest.raises(UsageError):
        choose_archs(text, [])


def test_waves_are_counted_for_the_gpu_at_hand_or_one_whose_size_is_known():
    assert (gpu_size_of("sm_89", [ADA]).name, gpu_size_of("sm_89", [ADA]).sms) == ("rtx4090", 128)
    assert (gpu_size_of("sm_90a", [ADA]).name, gpu_size_of("sm_90", []).sms) == ("h200", 132)
    assert gpu_size_of("sm_120", []) is None
