"""A pipeline on paper: closed forms, brute force, what the file may hold, and what is printed."""

import json
import re
from itertools import product

import pandas as pd
import pytest
from committed import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.profilers.phases.analysis import analyse
from gdnbench.profilers.phases.stamps import read_stamps
from gdnbench.project.advise import Lever, advise
from gdnbench.project.constraints import constraints_of
from gdnbench.project.pipeline import Buffer, Launch, Pipeline, Stage
from gdnbench.project.read import read_pipeline
from gdnbench.project.simulate import project
from gdnbench.project.steady import steady_state

RING = ROOT / "docs" / "pipelines" / "decode-v9-ring.toml"
STAMPS = ROOT / "profiles" / "phases" / "decode-v9" / "20261122-024451-h200-B1-qk4_v8.npz"


ONE = Launch()


def line(*times_us, slots=64, workers=None, items=100, launch=ONE):
    """Stages one after the other, with a buffer between each two."""
    last = len(times_us) - 1
    workers = workers or [1] * len(times_us)
    stages = tuple(
        Stage(
            f"s{index}",
            time_us,
            workers[index],
            takes=(f"b{index - 1}",) if index else (),
            gives=(f"b{index}",) if index < last else (),
        )
        for index, time_us in enumerate(times_us)
    )
    return Pipeline(items, stages, tuple(Buffer(f"b{index}", slots) for index in range(last)), launch)


def test_with_slots_enough_the_slowest_stage_sets_the_pace_and_the_whole():
    found = project(line(1.0, 3.0, 2.0))
    assert found.steady.item_us == 3.0
    assert found.steady.is_work
    assert found.pipeline_us == pytest.approx(1.0 + 3.0 * 100 + 2.0)
    assert found.fill_us == pytest.approx(6.0)


def test_one_slot_that_both_hold_while_they_work_takes_the_sum():
    found = project(line(2.0, 5.0, slots=1))
    assert found.steady.item_us == pytest.approx(7.0)
    assert found.steady.buffers == ("b0",)
    assert found.pipeline_us == pytest.approx(700.0)


def test_two_slots_between_two_stages_take_the_slower():
    assert project(line(2.0, 5.0, slots=2)).steady.item_us == 5.0


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_share_a_stage(workers):
    found = project(line(10.0, workers=[workers]))
    assert found.steady.item_us == pytest.approx(10.0 / workers)
    assert found.pipeline_us == pytest.approx(10.0 * 100 / workers)
    assert found.uses[0].busy == pytest.approx(1.0)


def test_loads_in_flight_are_bounded_by_slots():
    """Little's law: n slots, each held for load and use, pass n items in that time."""
    found = project(line(9.0, 1.0, slots=4, workers=[8, 1]))
    assert found.steady.item_us == pytest.approx(10.0 / 4)


def test_what_comes_back_makes_a_chain_of_the_stages_on_it():
    stages = (
        Stage("scan", 2.0, takes=("state",), gives=("out",)),
        Stage("fold", 3.0, takes=("out",), gives=("state",)),
    )
    found = project(Pipeline(50, stages, (Buffer("out", 8), Buffer("state", 8, filled=1))))
    assert found.steady.item_us == pytest.approx(5.0)
    assert not found.steady.is_work
    assert found.steady.buffers == ()
    assert found.pipeline_us == pytest.approx(250.0)


def test_a_circle_without_a_filled_slot_is_a_deadlock():
    stages = (
        Stage("scan", 2.0, takes=("state",), gives=("out",)),
        Stage("fold", 3.0, takes=("out",), gives=("state",)),
    )
    with pytest.raises(UsageError, match=r"deadlock: .* waits for an item in") as raised:
        project(Pipeline(5, stages, (Buffer("out", 8), Buffer("state", 8))))
    assert "filled = 1" in raised.value.hint


def test_a_full_buffer_that_its_giver_must_read_first_is_a_deadlock():
    stages = (Stage("loop", 1.0, takes=("own",), gives=("own",)),)
    with pytest.raises(UsageError, match="waits for room in own"):
        project(Pipeline(5, stages, (Buffer("own", 2, filled=2),)))
    assert project(Pipeline(5, stages, (Buffer("own", 3, filled=2),))).pipeline_us == 5.0


def test_blocks_run_in_waves():
    launch = Launch(blocks=265, sms=132, blocks_per_sm=1, overhead_us=2.0)
    assert launch.waves == 3
    assert project(line(1.0, items=10, launch=launch)).launch_us == pytest.approx(32.0)


def test_one_item_only_fills():
    found = project(line(1.0, 2.0, items=1))
    assert (found.fill_us, found.full_us, found.drain_us) == (3.0, 0.0, 0.0)


@st.composite
def pipelines(draw):
    """Up to four stages; each later one takes from some of those before, and may give back to the first."""
    count = draw(st.integers(1, 4))
    numbers = st.integers(1, 9)
    takes, gives = [[] for _ in range(count)], [[] for _ in range(count)]
    buffers = []
    for later in range(1, count):
        for earlier in draw(st.lists(st.integers(0, later - 1), unique=True, max_size=2)):
            name = f"b{len(buffers)}"
            gives[earlier].append(name)
            takes[later].append(name)
            if later + 1 < count and draw(st.booleans()):
                takes[count - 1].append(name)  # a second taker
            buffers.append(Buffer(name, draw(st.integers(1, 3))))
    if draw(st.booleans()):
        slots = draw(st.integers(2, 4))
        gives[count - 1].append("back")
        takes[0].append("back")
        buffers.append(Buffer("back", slots, filled=draw(st.integers(1, slots - 1))))
    stages = tuple(
        Stage(f"s{index}", float(draw(numbers)), draw(st.integers(1, 3)), tuple(takes[index]), tuple(gives[index]))
        for index in range(count)
    )
    return Pipeline(draw(st.integers(1, 12)), stages, tuple(buffers))


def stepped(pipeline):
    """When each item begins, found by moving the clock tick by tick and counting tokens: nothing of max-plus in it."""
    place = {stage.name: index for index, stage in enumerate(pipeline.stages)}
    begun, ended = [[] for _ in pipeline.stages], [[] for _ in pipeline.stages]
    now = 0
    while any(len(items) < pipeline.items for items in ended):
        for index, stage in enumerate(pipeline.stages):
            while len(ended[index]) < len(begun[index]) and begun[index][len(ended[index])] + stage.time_us <= now:
                ended[index].append(now)
        moved = True
        while moved:
            moved = False
            for index, stage in enumerate(pipeline.stages):
                item = len(begun[index])
                if item == pipeline.items or item - len(ended[index]) >= stage.workers:
                    continue
                fits = True
                for buffer in pipeline.buffers:
                    if buffer.name in stage.takes:
                        made = buffer.filled + len(ended[place[pipeline.giver(buffer.name).name]])
                        fits &= made > item
                    if buffer.name in stage.gives:
                        freed = min(len(ended[place[taker.name]]) for taker in pipeline.takers(buffer.name))
                        fits &= buffer.filled + item - freed < buffer.slots
                if fits:
                    begun[index].append(now)
                    moved = True
        now += 1
        assert now < 10_000, "it never ends"
    return tuple(map(tuple, begun))


def worst_circle(pipeline):
    """The largest ratio over all simple circles, by trying every path."""
    constraints = constraints_of(pipeline)
    worst = 0.0
    paths = [(each.earlier, (each.earlier,), each.later, each.time_us, each.shift) for each in constraints]
    while paths:
        begin, seen, at, time_us, shift = paths.pop()
        if at == begin:
            worst = max(worst, time_us / shift)
        elif at not in seen:
            paths += [
                (begin, (*seen, at), each.later, time_us + each.time_us, shift + each.shift)
                for each in constraints
                if each.earlier == at
            ]
    return worst


@settings(max_examples=300, deadline=None)
@given(pipelines())
def test_the_recursion_is_what_moving_the_clock_gives(pipeline):
    assert project(pipeline).begins_us == stepped(pipeline)


@settings(max_examples=300, deadline=None)
@given(pipelines())
def test_the_steady_state_is_the_worst_circle(pipeline):
    assert steady_state(pipeline).item_us == pytest.approx(worst_circle(pipeline), rel=1e-8)


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_the_slowest_stage_advances_at_the_steady_state(pipeline):
    """Over many items the whole grows by the steady state an item."""
    few, many = (project(Pipeline(items, pipeline.stages, pipeline.buffers)) for items in (480, 960))
    assert (many.pipeline_us - few.pipeline_us) / 480 == pytest.approx(few.steady.item_us, rel=1e-6)


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_shares_add_up_and_no_change_makes_it_slower(pipeline):
    found = project(pipeline)
    for use in found.uses:
        shares = (use.busy, use.waits_input, use.waits_room, use.done)
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) > -1e-9
    assert found.fill_us + found.full_us + found.drain_us == pytest.approx(found.pipeline_us)
    gains = [round(change.gain, 9) for change in advise(found)]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] >= 0


def test_advice_names_the_slot_that_is_missing_and_not_the_worker():
    changes = advise(project(line(2.0, 5.0, slots=1)))
    assert (changes[0].lever, changes[0].subject) == (Lever.SLOT, "b0")
    assert changes[0].item_us == pytest.approx(5.0)
    assert not any(change.helps for change in changes if change.lever is Lever.WORKER)


GOOD = """
items = 10
[stages.load]
time_us = 2.0
gives = ["tiles"]
[stages.use]
cycles = 3930
takes = ["tiles"]
[buffers.tiles]
slots = 2
"""


@pytest.fixture
def write(tmp_path):
    def put(text):
        path = tmp_path / "p.toml"
        path.write_text(text)
        return path

    return put


def test_a_file_is_read(write):
    pipeline = read_pipeline(write(f"clock_mhz = 1965\n{GOOD}"))
    assert [stage.time_us for stage in pipeline.stages] == [2.0, pytest.approx(2.0)]
    assert pipeline.buffers == (Buffer("tiles", 2),)
    assert pipeline.name == "p"


def test_the_committed_pipeline_has_the_times_of_its_profile():
    rows = {row.name: row.average for row in analyse(read_stamps(STAMPS)).breakdown.rows()}
    pipeline = read_pipeline(RING)
    assert {stage.name: stage.time_us for stage in pipeline.stages} == {
        stage.name: rows[stage.name] for stage in pipeline.stages
    }


def test_phases_of_one_stage_are_added_up(write):
    text = f'items = 4\n[stages.load]\nphases = "{STAMPS}"\nphase = {{}}\n'
    load, update, both = (
        read_pipeline(write(text.format(phase))).stages[0] for phase in ('"load"', '["update"]', '["load", "update"]')
    )
    assert both.time_us == pytest.approx(load.time_us + update.time_us)
    assert both.measured.phase == "load and update"


def test_a_phase_is_divided_by_its_items(write):
    text = f'items = 4\n[stages.load]\nphases = "{STAMPS}"\nphase = "load"\nphase_items = {{}}\n'
    whole, eighth = (read_pipeline(write(text.format(items))).stages[0].time_us for items in (1, 8))
    assert eighth == pytest.approx(whole / 8)


def replaced(old, new):
    assert old in GOOD
    return "clock_mhz = 1965\n" + GOOD.replace(old, new)


WRONG = {
    "no clock": (GOOD, "clock_mhz"),
    "no TOML": ("items = = 3", "line 1"),
    "empty": ("", "items"),
    "unknown key": (replaced("slots = 2", "slots = 2\nslot = 3"), "buffers.tiles: .*slot"),
    "unknown stage key": (replaced("time_us", "time"), "stages.load: .*time"),
    "no slots": (replaced("slots = 2", "slots = 0"), "slots"),
    "more filled than slots": (replaced("slots = 2", "slots = 2\nfilled = 3"), "3 of 2"),
    "many items": (replaced("items = 10", "items = 1000000000"), "items"),
    "items beyond int64": (replaced("items = 10", f"items = {'9' * 30}"), "items"),
    "an endless number": (replaced("items = 10", f"items = {'9' * 5000}"), "p.toml"),
    "items that are too much work": (
        'items = 100000\n[stages.a]\ntime_us = 1\ngives = ["x", "y", "z"]\n'
        '[stages.b]\ntime_us = 1\ntakes = ["x", "y", "z"]\n'
        "[buffers.x]\nslots = 1\n[buffers.y]\nslots = 1\n[buffers.z]\nslots = 1\n",
        "give at most 25000",
    ),
    "many stages": ("items = 1\n" + "".join(f"[stages.s{n}]\ntime_us = 1\n" for n in range(17)), "stages"),
    "no time": (replaced("time_us = 2.0", ""), "has no time"),
    "two times": (replaced("time_us = 2.0", "time_us = 2.0\ncycles = 3"), "two times"),
    "zero": (replaced("time_us = 2.0", "time_us = 0"), "time_us"),
    "nan": (replaced("time_us = 2.0", "time_us = nan"), "stages.load: time_us"),
    "overhead that is nan": (GOOD + "[launch]\noverhead_us = nan", "launch: overhead_us"),
    "a clock that is nan": (f"clock_mhz = nan\n{GOOD}", "clock_mhz"),
    "inf": (replaced("time_us = 2.0", "time_us = inf"), "time_us"),
    "an unknown buffer": (replaced('gives = ["tiles"]', 'gives = ["tilse"]'), "did you mean tiles"),
    "two givers": (replaced('takes = ["tiles"]', 'gives = ["tiles"]'), "load and use give"),
    "no taker": (replaced('takes = ["tiles"]', ""), "no stage takes"),
    "twice": (replaced('gives = ["tiles"]', 'gives = ["tiles", "tiles"]'), "twice"),
    "a name": (replaced("stages.load", 'stages."a b"'), "a name has"),
    "no such profile": (replaced("time_us = 2.0", 'phases = "no.npz"\nphase = "load"'), "no.npz"),
    "no profile": (replaced("time_us = 2.0", 'phases = "p.toml"\nphase = "load"'), "holds no stamps"),
    "no phase": (replaced("time_us = 2.0", f'phases = "{STAMPS}"'), "phase is missing"),
    "another phase": (replaced("time_us = 2.0", f'phases = "{STAMPS}"\nphase = "laod"'), "did you mean load"),
    "a phase twice": (replaced("time_us = 2.0", f'phases = "{STAMPS}"\nphase = ["load", "load"]'), "twice"),
    "one of two phases": (replaced("time_us = 2.0", f'phases = "{STAMPS}"\nphase = ["load", "x"]'), "no phase x"),
    "items of no phase": (replaced("time_us = 2.0", "time_us = 2.0\nphase_items = 4"), "phase_items"),
    "deep keys": (f"items = 1\n{'.'.join('a' * 5000)} = 1", "p.toml"),
    "deep lists": (f"items = {'[' * 5000}", "p.toml"),
    "deadlock": (
        'items = 1\n[stages.a]\ntime_us = 1\ntakes = ["x"]\ngives = ["y"]\n'
        '[stages.b]\ntime_us = 1\ntakes = ["y"]\ngives = ["x"]\n[buffers.x]\nslots = 1\n[buffers.y]\nslots = 1\n',
        "p.toml: deadlock",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_does_not_fit_is_refused_with_what_to_do(write, name):
    text, told = WRONG[name]
    with pytest.raises(GdnbenchError) as raised:
        read_pipeline(write(text))
    assert raised.value.hint
    assert re.search(told, f"{raised.value.message}; {raised.value.hint}")


def test_a_file_that_is_no_file_is_refused(tmp_path):
    for path, name in product([tmp_path], ["", "missing.toml", "a\0b"]):
        with pytest.raises(UsageError):
            read_pipeline(path / name)
    large = tmp_path / "large.toml"
    large.write_text("#" * (1 << 21))
    with pytest.raises(UsageError, match="1 MiB"):
        read_pipeline(large)


def test_the_page_shows_what_the_command_prints(command_line, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, _ = command_line("project", "docs/pipelines/decode-v9-ring.toml")
    assert code == 0
    printed = "\n".join(row.rstrip() for row in out.splitlines())
    assert printed.strip() in (ROOT / "docs" / "projecting.md").read_text()


@pytest.mark.parametrize("kernel", ["would-keep", "would-read"])
def test_the_page_tells_what_a_changed_kernel_was_projected_to_take(command_line, kernel):
    code, out, _ = command_line("project", RING.with_name(f"fp8-gemm-pos-v2-{kernel}.toml"), "--json")
    assert code == 0
    assert f"{json.loads(out)['launch_us']:.1f}" in (ROOT / "docs" / "projecting.md").read_text()


@pytest.mark.parametrize("kernel", ["reads", "keeps"])
def test_overhead_makes_a_measured_kernel_take_what_it_was_measured_to_take(command_line, kernel):
    path = RING.with_name(f"fp8-gemm-pos-v2-{kernel}.toml")
    measured = pd.read_csv(ROOT / "results" / "20261125-032254-h200-fp8-gemm-pos-keep" / "measurements.csv")
    label = {"reads": "fp8-gemm-pos-v2:KEEP=0", "keeps": "fp8-gemm-pos-v2"}[kernel]
    code, out, _ = command_line("project", path, "--json")
    assert code == 0
    assert json.loads(out)["launch_us"] == pytest.approx(measured.set_index("label").time_us[label], abs=0.01)


def test_json_has_every_change(command_line):
    code, out, _ = command_line("project", RING, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["bottleneck"]["kind"] == "slots"
    assert document["bottleneck"]["buffers"] == ["tiles"]
    assert len(document["changes"]) == 4 * 3 + 2
    assert document["launch_us"] == pytest.approx(document["pipeline_us"] + document["launch"]["overhead_us"])


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        ("[stages.a]\ntime_us = 4\nworkers = 2", "bottleneck: the work of a: 4.000 µs an item over 2 workers"),
        (
            '[stages.a]\ntime_us = 1\ntakes = ["x"]\ngives = ["y"]\n'
            '[stages.b]\ntime_us = 2\ntakes = ["y"]\ngives = ["x"]\n'
            "[buffers.x]\nslots = 3\nfilled = 1\n[buffers.y]\nslots = 3",
            "bottleneck: what comes back to an earlier stage through x:\n a 1.000 + b 2.000 = 3.000 µs for 1 item",
        ),
        (
            "[stages.a]\ntime_us = 4\n[launch]\nblocks = 3\noverhead_us = 2",
            "launch 122.0 µs: 3 pipelines one after the other, and 2.000 of overhead",
        ),
    ],
)
def test_what_sets_the_pace_is_told(command_line, write, pipeline, told):
    code, out, _ = command_line("project", write(f"items = 10\n{pipeline}"))
    assert code == 0
    assert told in re.sub(" +", " ", out)


def test_what_saves_next_to_nothing_is_not_in_the_table(command_line, write):
    """With 4,000 items a tenth of the short stage saves a thousandth of a percent, in filling."""
    long = GOOD.replace("items = 10", "items = 4000").replace("time_us = 2.0", "time_us = 1.0")
    code, out, _ = command_line("project", write(f"clock_mhz = 1965\n{long}"))
    assert code == 0
    assert " 0.00%" not in out
    assert "save less than 0.01% alone:\nload 25% faster, load 10% faster" in out


def test_without_a_profile_the_next_command_is_its_own_json(command_line, write):
    path = write(f"clock_mhz = 1965\n{GOOD}")
    code, out, _ = command_line("project", path)
    assert code == 0
    assert out.splitlines()[-1] == f"next: gdnbench project {path} --json"
    assert command_line("project", path, "--json")[0] == 0
