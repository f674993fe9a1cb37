"""A run on every card at once: what each card's run is told, and on which cores it runs."""

import os

import pytest

from gdnbench.errors import UsageError
from gdnbench.machine.gpus import gpu_lock, select_cards, share_cores, usable_cores
from gdnbench.model.gpu import Gpu
from gdnbench.verbs.parallel import card_arguments, card_jobs

GPUS = tuple(Gpu(index=n, name="NVIDIA H200", uuid=f"GPU-{n}aaa-1", capability=(9, 0)) for n in range(4))
B200 = Gpu(index=4, name="NVIDIA B200", uuid="GPU-4bbb-1", capability=(10, 0))


def test_a_list_names_gpus_as_one_is_named():
    assert select_cards("0,2", GPUS) == (GPUS[0], GPUS[2])
    assert select_cards("GPU-3aaa, 1", GPUS) == (GPUS[3], GPUS[1])


def test_gpus_of_two_models_are_refused_with_what_to_do():
    for wanted in ("all", "0,4"):
        with pytest.raises(UsageError, match="several models: NVIDIA H200, NVIDIA B200") as refused:
            select_cards(wanted, (*GPUS, B200))
        assert "run each model by itself" in refused.value.hint
        assert "compare" in refused.value.hint


def test_a_gpu_named_twice_is_refused():
    for wanted in ("1,1", "h200,h200", "2,GPU-2aaa"):
        with pytest.raises(UsageError, match="twice"):
            select_cards(wanted, GPUS)


def test_each_cards_run_is_the_command_with_its_own_gpu_and_label():
    words = ["run", "decode-v9", "--gpu", "all", "--shape", "B=1", "--label=night", "--csv", "-q"]
    assert card_arguments(words, GPUS[2], "night") == [
        "run", "--yes", "--gpu", "GPU-2aaa-1", "--label", "night-card2", "--json", "decode-v9", "--shape", "B=1", "-q",
    ]  # fmt: skip
    told = card_arguments(["run", "--gpu=0,2", "--label", "x", "-y", "--", "decode-v9"], GPUS[0], "x")
    assert told == ["run", "--gpu", "GPU-0aaa-1", "--label", "x-card0", "--json", "-y", "--", "decode-v9"]
    assert "card1" in card_arguments(["run", "--gpu", "all"], GPUS[1], "")


def test_cores_are_shared_evenly_and_by_node_where_that_is_known():
    cores, unknown = list(range(8)), frozenset[int]()
    assert share_cores(cores, [unknown] * 2) == ((frozenset(range(4)), frozenset(range(4, 8))), False)
    near, far = frozenset(range(4, 8)), frozenset(range(4))
    assert share_cores(cores, [near, far]) == ((near, far), True)
    parts, is_near = share_cores(cores, [near, near, far])
    assert parts == (frozenset({4, 5}), frozenset({6, 7}), far)
    assert is_near
    whole = frozenset(range(100))
    assert share_cores(cores, [whole, whole]) == ((frozenset(range(4)), frozenset(range(4, 8))), False)


@pytest.mark.parametrize(
    "near",
    [
        [frozenset({0, 1}), frozenset({1, 2})],  # overlap
        [frozenset({0}), frozenset({0})],  # one core for two
        [frozenset({90}), frozenset({0, 1})],  # none that may be used
    ],
)
def test_nodes_that_cannot_be_shared_give_an_even_split(near):
    assert share_cores(range(4), near) == ((frozenset({0, 1}), frozenset({2, 3})), False)


def test_the_parts_of_this_machine_are_disjoint_and_usable():
    jobs, told = card_jobs(GPUS[:2], ["run", "--gpu", "all"], "")
    assert all(job.cores <= os.sched_getaffinity(0) for job in jobs)
    if len(usable_cores()) > 1:
        assert not jobs[0].cores & jobs[1].cores
        assert "cores of its own" in told
    else:
        assert "share all of them" in told


def test_two_cards_of_a_host_do_not_wait_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    waited = []
    with gpu_lock(GPUS[0], lambda: waited.append(0)), gpu_lock(GPUS[1], lambda: waited.append(1)):
        assert not waited
