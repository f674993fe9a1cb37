"""What NVIDIA's rules say: read from a real report, stored beside the metrics, and ranked by what they estimate."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ncu_data import V1, unpack_report

from gdnbench.errors import ReportFormatError
from gdnbench.profile.ncu.profile import RuleResult, estimated_speedups, rules_of
from gdnbench.profile.ncu.report import read_any
from gdnbench.profile.ncu.store import read_profiles, write_profiles


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """Three launches of decode-v1, with what ncu 2025.3.1 said of them."""
    return read_any(unpack_report(tmp_path_factory.mktemp("report")))


@pytest.fixture
def stored(tmp_path, profiles):
    write_profiles(tmp_path / "p.csv", profiles)
    return tmp_path / "p.csv"


def test_a_report_holds_the_results_of_the_rules(profiles):
    assert [len(profile.rules) for profile in profiles] == [18, 16, 18]
    stall = next(result for result in profiles[0].rules if result.rule == "CPIStall")
    assert (stall.name, stall.section, stall.title) == ("Warp Stall", "WarpStateStats", "Long Scoreboard Stalls")
    assert (stall.kind, stall.scope) == ("optimization", "global")
    assert stall.speedup_pct == pytest.approx(43.40058613460241)
    assert stall.message.startswith("On average, each warp of this workload spends 3.5 cycles being stalled")


def test_links_in_messages_are_their_texts(profiles):
    messages = [result.message for profile in profiles for result in profile.rules]
    assert not any("@" in message for message in messages)
    assert any("inspecting the top stall reasons on the Warp State Statistics and" in message for message in messages)
    assert any("See the CUDA Best Practices Guide for more details" in message for message in messages)


def test_a_rule_without_an_estimate_has_none(profiles):
    remark = next(result for result in profiles[0].rules if result.rule == "SOLFPRoofline")
    assert (remark.kind, remark.speedup_pct, remark.scope) == ("ok", None, "")


def test_what_is_ranked_is_of_the_launchs_time_and_the_median_over_launches(profiles):
    found = estimated_speedups(profiles)
    assert [result.title or result.name for result in found[:3]] == [
        "Achieved Occupancy", "Theoretical Occupancy", "Long Scoreboard Stalls",
    ]  # fmt: skip
    assert found[2].speedup_pct == pytest.approx(43.40058613460241)  # of 43.4, 42.2 and 55.4
    assert "HighPipeUtilization" not in {result.rule for result in found}  # whose 99 % are of one section's metric
    assert estimated_speedups(read_profiles(V1)) == ()


def test_rules_come_back_with_the_profiles(stored, profiles):
    assert read_profiles(stored) == profiles
    assert read_any(stored) == profiles
    assert sorted(path.name for path in stored.parent.iterdir()) == ["p.csv", "p.rules.json"]


def test_rules_are_those_of_their_launch(stored, profiles):
    document = json.loads((stored.parent / "p.rules.json").read_text())
    document["launches"] = document["launches"][2:]
    (stored.parent / "p.rules.json").write_text(json.dumps(document))
    assert [len(profile.rules) for profile in read_profiles(stored)] == [0, 0, 18]


def test_profiles_without_rules_have_no_file_of_rules(tmp_path, profiles):
    write_profiles(tmp_path / "p.csv", [replace(profile, rules=()) for profile in profiles])
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("message", "\x1b[2J", "launches[0].rules[0].message: "),
        ("title", 3, "launches[0].rules[0].title: "),
        ("kind", "advice", "launches[0].rules[0].kind: "),
        ("speedup_pct", "much", "launches[0].rules[0].speedup_pct: "),
    ],
)
def test_a_field_that_cannot_be_what_it_is_is_named_with_its_file(stored, field, value, said):
    path = stored.parent / "p.rules.json"
    document = json.loads(path.read_text())
    document["launches"][0]["rules"][0][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ReportFormatError) as caught:
        read_profiles(stored)
    assert f"{path}: {said}" in caught.value.message


@pytest.mark.parametrize("content", ["", "{}", '{"schema": 2, "launches": []}', '{"schema": 1}', "[" * 100_000])
def test_a_file_of_rules_that_is_none_is_named(stored, content):
    (stored.parent / "p.rules.json").write_text(content)
    with pytest.raises(ReportFormatError, match=r"p\.rules\.json"):
        read_profiles(stored)


def test_a_module_that_gives_no_rules_and_estimates_that_are_none():
    assert list(rules_of(SimpleNamespace())) == []
    found = {"rule_identifier": "R", "name": "a\x1b\nrule", "section_identifier": "S"}
    action = SimpleNamespace(
        rule_results_as_dicts=lambda: [{**found, "speedup_estimation": {"type": 2, "speedup": float("nan")}}]
    )
    assert list(rules_of(action)) == [RuleResult("R", "a rule", "S", "", "", scope="global")]
