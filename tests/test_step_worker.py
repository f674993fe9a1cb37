"""The worker that times steps, on a GPU made up: what it sends of chains that are right, wrong later, or fail."""

import gc

import pytest
from decode_workloads import decode_at
from fake_cuda import KERNEL_US, cuda_made_up
from faults import ADVERSARIAL
from run_data import Events, case

from gdnbench.catalog.catalog import default_roots
from gdnbench.model.status import Status
from gdnbench.step.plan import L2, Quantity, StepCase, StepTask, Way
from gdnbench.step.worker import layers, measure
from gdnbench.store.journal import Examined, Sampled
from gdnbench.workers.launched import FILL
from gdnbench.workers.task import Phase

LAYERS, SAMPLES, ROUNDS = 2, 4, 3
ROOTS = tuple(map(str, (default_roots()[0], ADVERSARIAL / "both", ADVERSARIAL / "gpu")))


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """The GPU, on which each call of a kernel is a launch; there is no C compiler."""
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.syspath_prepend(ADVERSARIAL)
    load = layers.load
    with cuda_made_up() as made:

        def launching(run):
            return lambda: (made.launch("kernel", KERNEL_US), run())[1]

        monkeypatch.setattr(layers, "load", lambda *of: lambda workspace: launching(load(*of)(workspace)))
        yield made
    gc.enable()


def chain(label, path=Way.PYTHON, l2=L2.RESIDENT, **params):
    of = case(label, workload=decode_at(HQ=1, HV=1, K=8, V=8), kernel=label.partition(":")[0], **params)
    return StepCase(of.variant, of.workload, path=path, l2=l2)


def sent(work, *cases, op="decode"):
    """What a worker sends: its samples by name and round, and its verdicts by case."""
    ids = tuple(each.id for each in cases)
    task = StepTask(
        Phase.MEASURE, "cuda", ROOTS, op, cases, seed=1, step_limit_s=9.0, order=(ids,) * ROUNDS, first_round=5,
        samples=dict.fromkeys(ids, SAMPLES), layers=LAYERS,
    )  # fmt: skip
    events, samples = Events(), {}
    work(task, events)
    for event in events:
        if isinstance(event, Sampled):
            samples.setdefault(event.case, {})[event.round] = event.times_us
    return samples, {event.case: event.status for event in events if isinstance(event, Examined)}


@pytest.mark.parametrize("l2", [L2.RESIDENT, L2.EVICTED])
def test_every_quantity_is_of_a_layer_in_every_round(gpu, l2):
    one, other = chain("decode-reference", l2=l2), chain("decode-reference", Way.GRAPH, l2)
    samples, verdicts = sent(measure.measure_steps, one, other)
    assert verdicts == {other.id: Status.UNSUPPORTED}
    assert samples.keys() == {one.of(each) for each in Quantity}
    assert {tuple(rounds) for rounds in samples.values()} == {(0, 5, 6)}
    for quantity, count in ((Quantity.STEP, SAMPLES), (Quantity.QUEUED, SAMPLES), (Quantity.KERNELS, 1)):
        for times_us in samples[one.of(quantity)].values():
            assert times_us == pytest.approx([KERNEL_US] * count)
    assert (FILL in {each.name for each in gpu.launched}) == (l2 is L2.EVICTED)


def test_a_chain_that_is_wrong_once_it_was_timed_leaves_the_others_checked_and_recorded(gpu):
    wrong, right = chain("test-tires:CALLS=60", CALLS=60), chain("decode-reference")
    samples, verdicts = sent(measure.measure_steps, wrong, right)
    assert verdicts == {wrong.id: Status.WRONG_NUMBERS}
    assert len(samples[right.of(Quantity.KERNELS)]) == ROUNDS
    assert wrong.of(Quantity.KERNELS) not in samples


@pytest.mark.parametrize("dies", [False, True], ids=["it goes on", "the GPU dies"])
def test_a_chain_that_fails_ends_the_worker_only_with_the_gpu(gpu, monkeypatch, dies):
    import honest

    def fails_later(_kernel):
        fails = gpu.now_ns > 150e3
        gpu.is_alive = not (dies and fails)
        return fails

    monkeypatch.setattr(honest, "is_timed", fails_later)
    failing, right = chain("test-late-raise"), chain("decode-reference")
    samples, verdicts = sent(measure.measure_steps, failing, right)
    assert verdicts == {failing.id: Status.CRASHED if dies else Status.FAILED}
    assert 0 < len(samples[failing.id]) < ROUNDS
    assert (len(samples[right.id]) == ROUNDS) is not dies
    assert (right.of(Quantity.KERNELS) in samples) is not dies
