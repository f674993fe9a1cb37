import pytest

from gdnbench.errors import DeclarationError
from gdnbench.model.declaration import Param, Params

WARPS = Param(default=8, choices=(1, 2, 4, 8, 16))
MODE = Param(default="fast", choices=("fast", "exact"))


def test_a_default_outside_the_choices_is_a_contradiction():
    with pytest.raises(DeclarationError, match="3 is not among"):
        Param(default=3, choices=(1, 2))


@pytest.mark.parametrize(("param", "given", "meant"), [(WARPS, "16", 16), (WARPS, 4, 4), (MODE, "exact", "exact")])
def test_text_from_a_command_line_becomes_the_choice_it_names(param, given, meant):
    parsed = param.parse("P", given)
    assert parsed == meant
    assert type(parsed) is type(meant)


def test_params_cannot_be_changed():
    params = Params({"WARPS": 8})
    with pytest.raises(AttributeError):
        params.WARPS = 4
    with pytest.raises(TypeError):
        params["WARPS"] = 4
    assert params.WARPS == params["WARPS"] == 8


def test_equal_params_hash_alike_whatever_their_order():
    one, other = Params({"BV": 8, "MODE": "fast"}), Params({"MODE": "fast", "BV": 8})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Params({"BV": 16, "MODE": "fast"})
