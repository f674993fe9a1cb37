import pytest
from run_data import case

from gdnbench.bench.task import Phase, Task
from gdnbench.model import Role, Shape

CASES = (case("decode-fla", Role.BASELINE), case("decode-t:MODE=a b", shape=Shape(B=64, HQ=16, HV=32), MODE="a b"))


def task(**more):
    values = {
        "phase": Phase.MEASURE, "device": "cuda", "roots": ("/kernels", "/mine, too"), "op": "decode", "cases": CASES,
        "seed": 2**31 - 1, "step_limit_s": 30.0,
    }  # fmt: skip
    return Task(**{**values, **more})


@pytest.mark.parametrize("phase", Phase)
def test_a_task_survives_its_file(tmp_path, phase):
    ids = tuple(each.id for each in CASES)
    written = task(
        phase=phase, order=(ids, ids[::-1]), first_round=4, samples=dict.fromkeys(ids, 300), plain=True, record="r.json"
    )
    written.write(tmp_path / "task.json")
    read = Task.read(tmp_path / "task.json")
    assert read == written
    assert read.plain is True
    assert isinstance(read.phase, Phase)


def test_a_task_without_measuring_survives_too(tmp_path):
    task(cases=()).write(tmp_path / "task.json")
    assert Task.read(tmp_path / "task.json") == task(cases=())


def test_the_first_round_of_every_part_is_burn_in_and_the_others_count_on():
    assert [task().round_number(position) for position in range(4)] == [0, 1, 2, 3]
    assert [task(first_round=9).round_number(position) for position in range(4)] == [0, 9, 10, 11]
