import copy
import pickle

import pytest

from gdnbench.errors import DeclarationError, ParamError
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


@pytest.mark.parametrize("value", [3, "3", "", "8.0", "08", "-8", "fast", "8 "])
def test_a_value_outside_the_choices_is_refused_with_those_that_are_inside(value):
    with pytest.raises(ParamError, match="WARPS") as caught:
        WARPS.parse("WARPS", value)
    assert "1, 2, 4, 8, 16" in caught.value.hint


def test_values_are_read_as_attributes_and_as_items():
    params = Params({"WARPS": 8, "MODE": "fast"})
    assert (params.WARPS, params["WARPS"], params.MODE) == (8, 8, "fast")
    assert dict(params) == {"WARPS": 8, "MODE": "fast"}
    assert str(params) == "WARPS=8 MODE=fast"


def test_an_unknown_attribute_names_the_known_ones():
    with pytest.raises(AttributeError, match=r"BV.*WARPS"):
        _ = Params({"WARPS": 8}).BV


def test_params_cannot_be_changed():
    params = Params({"WARPS": 8})
    with pytest.raises(AttributeError):
        params.WARPS = 4
    with pytest.raises(TypeError):
        params["WARPS"] = 4
    assert params.WARPS == params["WARPS"] == 8


def test_a_later_change_of_the_given_mapping_does_not_show():
    values = {"WARPS": 8}
    params = Params(values)
    values["WARPS"] = 4
    assert params.WARPS == 8


def test_equal_params_hash_alike_whatever_their_order():
    one, other = Params({"BV": 8, "MODE": "fast"}), Params({"MODE": "fast", "BV": 8})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Params({"BV": 16, "MODE": "fast"})


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_is_equal(duplicate):
    params = Params({"BV": 8})
    assert duplicate(params) == params
    assert duplicate(params).BV == 8
