"""Programs of events over a pool: each public kind of fault is found and shrunk, and honest kernels pass."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from faults import Gdnbench

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.mcp.digests import digest_verified
from gdnbench.model.status import Status
from gdnbench.verify.family import extent_of, find_family
from gdnbench.verify.programs import EventProgram, Extent, draw_program
from gdnbench.verify.replay import Replay, replay_and_shrink
from gdnbench.verify.shrink import shrink

BUNDLED, OPS = default_roots()[0], Path(__file__).parent / "sequences"
SMALL = "K=16 V=16"
POOL = """from gdnbench.launch.numerics import load_file
from gdnbench.origin import bundled_kernels

HONEST = load_file(bundled_kernels() / "decode-pool" / "reference" / "kernel.py")


def step(t, w, slot, pool):
    sizes = (w.HQ, w.HV, w.V, w.K)
    return HONEST.decode_pool(t.mixed_qkv, t.a, t.b, t.A_log, t.dt_bias, pool, slot, t.scale, t.beta_limit, sizes)
"""
DRAFTS = """from gdnbench.launch.numerics import load_file
from gdnbench.origin import bundled_kernels

HONEST = load_file(bundled_kernels() / "verify" / "reference" / "kernel.py")
"""
ROLLBACK = (
    DRAFTS.replace('"verify"', '"verify-rollback"')
    + """from types import SimpleNamespace


def given(t, accepted):
    return SimpleNamespace(**{**vars(t), "accepted": accepted})
"""
)
COPY = ""
FAULTS = {
    # vllm #50021: the count is taken as a place, and leads one slot too far.
    "wild accepted count": ("verify-rollback", ROLLBACK, """
    return lambda: HONEST.bind(given(t, 1 + t.accepted % w.T), w, params)()
"""),
    # vllm #53919: rows have moved, and the count is that of whoever was there before.
    "another request's count": ("verify-rollback", ROLLBACK, """
    return lambda: HONEST.bind(given(t, t.accepted.roll(1)), w, params)()
"""),
    # mlx-node #121: the state is that of all drafts, whatever was accepted.
    "state saved ahead": ("verify", DRAFTS, """
    run = HONEST.bind(t, w, params)
    def call():
        output, states = run()
        return output, states[:, -1:].expand_as(states)
    return call
"""),
    "state saved ahead in the pool": ("verify", DRAFTS, """
    run = HONEST.bind(t, w, params)
    def call():
        output, states = run()
        live = t.slot > 0
        t.pool[t.slot[live].long()] = states[live, -1]
        return output, states
    return call
"""),
    # FreeToken #287: the copy goes to a slot that is somebody's.
    "restore into a live slot": ("pool-copy", COPY, """
    def call():
        target = t.target.long()
        states = t.new_pool[t.source.long()]
        t.new_pool[target] = states
        t.new_pool[(target - 1).clamp(min=1)] = states
        return (t.new_pool,)
    return call
"""),
    # sglang #32658
    "checkpoint rounded to bf16": ("pool-copy", COPY, """
    def call():
        t.new_pool[t.target.long()] = t.new_pool[t.source.long()].bfloat16().float()
        return (t.new_pool,)
    return call
"""),
    # vllm #52364
    "padded rows write slot 0": ("decode-pool", POOL, """
    def call():
        output, pool = step(t, w, t.slot.clamp(min=1) * 0 + t.slot.clamp(min=0), t.new_pool)
        for row in (t.slot <= 0).nonzero().flatten().tolist():
            pool[0] = 0.5 * pool[0] + row
        return output, pool
    return call
"""),
    # flashinfer #3230, at a width of which a pool of 64 slots has too many elements
    "narrow offsets": ("decode-pool", POOL, """
    import torch
    def call():
        elements = w.HV * w.V * w.K
        offset = (t.slot.clamp(min=0).long() * elements) % (1 << 14)
        wrapped = torch.where(t.slot > 0, offset // elements, t.slot).int()
        return step(t, w, wrapped, t.new_pool)
    return call
"""),
    "permuted rows": ("decode-pool", POOL, """
    seen = []
    def call():
        seen.append(t.slot.clone())
        return step(t, w, seen[0], t.new_pool)
    return call
"""),
    "NaN reaches the next sequence": ("decode-pool", POOL, """
    def call():
        before = t.new_pool[t.slot.clamp(min=0).long()].sum()
        output, pool = step(t, w, t.slot, t.new_pool)
        return (output + 0.0 * before).to(output.dtype), pool
    return call
"""),
    "a state kept by its slot": ("decode-pool", POOL, """
    kept = {}
    def call():
        for slot in t.slot[t.slot > 0].tolist():
            t.new_pool[slot] = kept.get(slot, t.new_pool[slot])
        output, pool = step(t, w, t.slot, t.new_pool)
        kept.update({slot: pool[slot].clone() for slot in t.slot[t.slot > 0].tolist()})
        return output, pool
    return call
"""),
    # within the gate at each launch, and always to one side
    "a drift": ("decode-pool", POOL, """
    def call():
        output, pool = step(t, w, t.slot, t.new_pool)
        live = t.slot[t.slot > 0].long()
        pool[live] *= 1 + 2.0**-19
        return output, pool
    return call
"""),
    "an exception": ("decode-pool", POOL, """
    return lambda: {}[len(t.slot)]
"""),
    "weights are written": ("decode-pool", POOL, """
    def call():
        found = step(t, w, t.slot, t.new_pool)
        t.A_log.zero_()
        return found
    return call
"""),
}  # fmt: skip
OUTCOMES = {}
HONEST = {
    "decode-pool": "decode-pool-reference",
    "verify": "verify-reference",
    "verify-rollback": "verify-rollback-reference",
    "pool-copy": "pool-copy-torch",
}


def named(fault):
    return f"test-{fault.replace(' ', '-').replace(chr(39), '')}"


def family_with(fault):
    """Labels of a family whose one kernel has the fault, and whose others are honest."""
    op = FAULTS[fault][0]
    drafts = op if op in {"verify", "verify-rollback"} else "verify"
    return [named(fault) if each == op else HONEST[each] for each in ("decode-pool", drafts, "pool-copy")]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    for fault, (op, head, body) in FAULTS.items():
        write_kernel(folder / op / named(fault), f"{head}\n\ndef bind(t, w, params):{body}")
    return folder


def write_kernel(folder, text):
    folder.mkdir(parents=True)
    in_place = "" if folder.parent.name == "verify" else ', in_place={"new_pool": "pool"}'
    (folder / "variant.py").write_text(
        f'from gdnbench import TorchKernel\n\nkernel = TorchKernel(name="{folder.name}"{in_place})\n'
    )
    (folder / "kernel.py").write_text(text)


@pytest.fixture(scope="module")
def catalog(root):
    return load_catalog([BUNDLED, OPS, root])


def outcome(catalog, labels, *more, **options):
    """What a program of a family comes to; the same one is run once."""
    key = (id(catalog), *labels, *more, *options.items())
    if key not in OUTCOMES:
        OUTCOMES[key] = run_program(catalog, labels, *more, **options)
    return OUTCOMES[key]


def run_program(catalog, labels, seed=1, program=None, shape=SMALL, events=60):
    family = find_family(catalog, labels, shape)
    extent = extent_of(family, 64, events=events, batch=4, tokens=8)
    drawn = EventProgram.parse(program, extent) if program else draw_program(seed, list(family), extent)
    return replay_and_shrink(Replay(catalog, family, seed=seed, slots=64, device="cpu"), drawn)


@pytest.mark.parametrize("fault", [each for each in FAULTS if each != "a drift"])
def test_a_fault_is_found_and_shrunk(catalog, fault):
    found = outcome(catalog, family_with(fault))
    assert found.status.is_failure
    assert len(found.program.split()) <= 6
    again = run_program(catalog, family_with(fault), program=found.program)
    assert (again.program, again.status, again.reason) == (found.program, found.status, found.reason)


def test_what_is_told_of_a_fault_is_the_event_and_the_slot(catalog):
    found = outcome(catalog, family_with("state saved ahead"))
    assert found.program == "v1:1"
    assert "test-state-saved-ahead states fp32 roundoff, slot 1: error " in found.reason
    found = outcome(catalog, family_with("NaN reaches the next sequence"))
    assert found.program == "d1 x1 d1,2"
    assert "got nan" in found.reason


HONEST_FAMILIES = (
    ("decode-pool-reference", "verify-reference"),
    ("decode-pool-reference", "verify-reference", "pool-copy-torch"),
    ("verify-rollback-reference", "decode-pool-reference", "pool-copy-torch"),
    ("verify-rollback-reference", "decode-split-reference"),
    ("decode-split-reference", "verify-reference"),
    ("verify-rollback-reference",),
    ("kda-decode-reference", "kda-verify-reference"),
)


@pytest.mark.parametrize("labels", HONEST_FAMILIES, ids=" ".join)
def test_honest_kernels_pass_by_far(catalog, labels):
    found = outcome(catalog, labels, seed=3, events=120)
    assert (found.status, found.reason) == (Status.OK, "")
    roundoffs = [gate.worst for gate in found.gates if "roundoff" in gate.gate]
    assert len(roundoffs) == 2 * sum("copy" not in label for label in labels)
    assert 0 < max(roundoffs) < 2


def test_a_pool_in_bf16_is_rounded_at_each_store_and_passes(catalog):
    found = outcome(catalog, ["decode-pool-reference", "verify-reference"], shape=f"{SMALL} state=bf16", events=120)
    assert found.status is Status.OK
    assert max(gate.worst for gate in found.gates) < 4


def test_prefill_goes_on_from_what_it_was_given_and_ends_in_the_pool(catalog):
    family = ["prefill-reference", "decode-pool-reference", "verify-reference"]
    found = outcome(catalog, family, program="p1:3,2:70 p1:5 d2,1 c1>5 p5:2,1:2 v5:1,1:4 f2 p2:1 d2,0,5")
    assert (found.status, found.reason) == (Status.OK, "")


def test_nan_of_one_sequence_reaches_another_in_the_prefill_reference(catalog):
    found = outcome(catalog, ["prefill-reference"], program="p1:1 x1 p1:1,2:3")
    assert "slot 2" in found.reason
    assert "got nan" in found.reason


def worst_state(catalog, label, events):
    found = outcome(catalog, [label], program=" ".join(["d1,2"] * events))
    return found, next(gate.worst for gate in found.gates if "new_pool" in gate.gate)


def test_errors_are_carried_along_and_not_begun_anew(catalog):
    """An honest kernel's do not outgrow what they may be; those to one side do, each of which is within the gate."""
    found, honest = worst_state(catalog, "decode-pool-reference", 100)
    assert found.status is Status.OK
    assert honest < 2
    found, once = worst_state(catalog, named("a drift"), 1)
    assert found.status is Status.OK
    assert 1 < once < 4
    found, often = worst_state(catalog, named("a drift"), 5)
    assert found.status is Status.WRONG_NUMBERS
    assert often > 8


def test_programs_are_read_as_they_are_written():
    extent = Extent(events=200, slots=40, batch=8, tokens=130, drafts=4)
    for seed in range(5):
        drawn = draw_program(seed, ("prefill", "decode", "verify"), extent)
        assert (
            EventProgram.parse(str(drawn), extent)
            == drawn
            == draw_program(seed, ("verify", "decode", "prefill"), extent)
        )
        kinds = {event.kind for event in drawn.events}
        assert kinds == {"prefill", "decode", "verify", "copy", "free", "poison"}
        assert any(row.slot <= 0 for event in drawn.events for row in event.rows)
        assert any(row.slot == 40 for event in drawn.events for row in event.rows)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q1", "q1 is not an event"),
        ("d", "d is not an event"),
        ("d1:", "d1: is not an event"),
        ("d1,1", "slot 1 is there twice"),
        ("c1>2,3>2", "slot 2 is there twice"),
        ("d64", "there is no slot 64"),
        ("c1>0", "there is no slot 0"),
        ("v1:5", "1 to 4 drafts are accepted"),
        ("p1:0", "it has no token"),
        ("p0:2", "padding is of d and v alone"),
    ],
)
def test_a_wrong_program_is_refused(catalog, text, told):
    with pytest.raises(UsageError, match=told):
        outcome(catalog, ["decode-pool-reference", "verify-reference"], program=text)


def test_shrinking_keeps_what_the_failure_needs_and_nothing_else():
    extent = Extent(events=80, slots=40, batch=8, tokens=64, drafts=4)
    tried = []

    def copied_then_decoded(program):
        tried.append(program)
        copied = set()
        for place, event in enumerate(program.events):
            if event.kind == "decode" and copied & {row.slot for row in event.rows}:
                return place
            copied |= {row.to for row in event.rows if event.kind == "copy"}
        return None

    drawn = draw_program(7, ("prefill", "decode"), extent)
    assert str(shrink(drawn, copied_then_decoded, lambda: False)) == "c1>2 d2"
    assert len(tried) < 400
    assert shrink(drawn, lambda _: None, lambda: False) == drawn
    whole = shrink(drawn, copied_then_decoded, lambda: True)
    assert copied_then_decoded(whole) == len(whole.events) - 1


@pytest.mark.parametrize(
    ("labels", "shape", "told"),
    [
        (["fp8-gemm-pos-reference"], "", "fp8-gemm-pos does not say how it takes sequences"),
        (["decode-v9"], "", "decode takes no part in programs: `slot` names the input"),
        (["layer-v1"], "", "layer takes no part in programs: its `sequences` have no `call`"),
        (["decode-pool-reference", "decode-pool-v1"], "", "are both for decode"),
        (["pool-copy-torch"], "", "no kernel that takes tokens"),
        (["decode-pool-floor-copy"], "", "is a floor"),
        (["decode-pool-reference"], "T=2", "T=2 sets no axis"),
        (["decode-pool-reference"], "K=16,32", "programs run at one size"),
        (["decode-pool-reference", "pool-copy-torch"], "state=bf16", "are not alike"),
    ],
)
def test_a_family_that_does_not_go_together_is_refused(catalog, labels, shape, told):
    with pytest.raises((UsageError, DeclarationError), match=told):
        outcome(catalog, labels, shape=shape)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"call": "decod"}, "is not one of prefill, decode, verify, copy"),
        ({"slot": "slots"}, "slots is not an input"),
        ({"state": ("pool", "pool")}, "pool is not an output"),
        ({"axis": "N"}, "N is not an axis of a tensor"),
        ({"axis": "slots"}, "slots is not an axis of workloads"),
        ({"gates": ("output",)}, "output is not an input"),
        ({"state": None}, "`slot` is of a pool of states"),
        ({"call": "prefill"}, "`ends` of the op says where"),
        ({"call": "copy"}, "`copy` has an input `to`"),
        ({"shape": {"H": 1}}, "there is no axis H"),
    ],
)
def test_sequences_that_do_not_fit_their_op_are_refused(catalog, said, told):
    op = catalog.ops["decode-pool"]
    with pytest.raises(DeclarationError, match=told):
        replace(op, sequences=replace(op.sequences, **said))


def test_drafts_have_an_axis(catalog):
    op = catalog.ops["decode"]  # whose output has a 1 behind the batch
    with pytest.raises(DeclarationError, match="begins with the batch and an axis"):
        replace(op, sequences=replace(op.sequences, call="verify"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory, root):
    body = "    import os\n    return lambda: os._exit(3) if w.B > 1 else step(t, w, t.slot, t.new_pool)\n"
    write_kernel(root / "decode-pool" / "test-dies", f"{POOL}\n\ndef bind(t, w, params):\n{body}")
    return Gdnbench(tmp_path_factory.mktemp("sequences"), (OPS, root), in_process=True)


def verify(bench, labels, *options):
    return bench("verify", ",".join(labels), "--sequences", "--gpu", "cpu", "-q", "--shape", SMALL, *options)


@pytest.mark.slow
def test_a_failure_can_be_pasted(bench):
    labels = family_with("checkpoint rounded to bf16")
    done = verify(bench, labels, "--seed", "5", "--events", "40")
    assert done.code == 3, done.err
    assert "c1>2: event 2 fails, shrunk from 40" in done.out
    pasted = shlex.split(done.out.partition("next: gdnbench ")[2])
    again = bench(*pasted, "--gpu", "cpu", "-q", "--json")
    assert again.code == 3
    assert again.document["program"] == pasted[-1]
    assert again.document["events"] == 2
    assert "slot 2 has other bits than slot 1" in again.document["reason"]
    told = digest_verified(again.document, None).fields
    assert told["program"] == pasted[-1]
    assert told["gates"][0]["gate"] == "copies exact"


@pytest.mark.slow
def test_honest_kernels_pass_and_each_gate_is_told(bench):
    done = verify(bench, HONEST_FAMILIES[0], "--seed", "2", "--events", "30", "--json")
    assert done.code == 0, done.err
    assert (done.document["status"], done.document["events"]) == ("ok", 30)
    gates = {gate["gate"]: gate["passed"] for gate in done.document["gates"]}
    assert all(gates.values())
    assert {"other slots unchanged", "copies exact", "verify-reference states fp32 roundoff"} <= set(gates)


@pytest.mark.slow
def test_a_kernel_that_ends_its_process_fails_the_program_up_to_then(bench):
    done = verify(bench, ["test-dies"], "--program", "d1 d2 d1,2 d1", "--json")
    assert (done.document["status"], done.document["program"]) == ("crashed", "d1 d2 d1,2")
    assert done.code == 8


@pytest.mark.slow
def test_kernels_in_the_interpreters_pass(bench):
    labels = ["decode-pool-v1", "verify-v1", "pool-copy-torch"]
    program = "d1,0 v1:2,2:4 c1>3 d3,1 f2 x1 v2:1,1:1,3:3"
    done = bench("verify", ",".join(labels), "--sequences", "--gpu", "cpu", "-q", "--program", program, "--json")
    assert done.code == 0, done.out + done.err
    assert done.document["interpreted"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "code", "status", "told"),
    [
        ("verify-v3", 5, "unsupported", "verify-v3: tensor cores multiply bf16"),
        ("prefill-v3", 6, "build-failed", "keys of 128 elements"),
    ],
)
def test_a_kernel_that_cannot_do_the_sizes_is_told(bench, kernel, code, status, told):
    done = verify(bench, [kernel], "--json")
    assert (done.code, done.document["status"]) == (code, status)
    assert told in done.document["reason"]


@pytest.mark.parametrize("option", [("--quick",), ("--suite", "verify"), ("--profile", "never"), ("--op", "verify")])
def test_options_that_say_nothing_of_sequences_are_refused(bench, option):
    done = verify(bench, HONEST_FAMILIES[0], *option)
    assert done.code == 2
    assert "does not go with" in done.err


def test_options_of_sequences_need_the_flag(bench):
    done = bench("verify", "decode-pool-reference", "--program", "d1", "--gpu", "cpu")
    assert done.code == 2
    assert "add --sequences" in done.err


LARGE = (2**31 // (2 * 128 * 128)) + 64  # slots of a pool of more than 2^31 elements


@pytest.mark.gpu
@pytest.mark.parametrize("labels", [("decode-pool-v1", "verify-v1"), ("decode-pool-v2", "verify-v2")])
def test_a_pool_beyond_two_to_the_31_elements(labels):
    catalog = load_catalog([BUNDLED])
    family = find_family(catalog, labels, "state=bf16")
    extent = extent_of(family, LARGE, events=60, batch=8, tokens=8)
    drawn = draw_program(1, list(family), extent)
    assert any(row.slot == LARGE - 1 for event in drawn.events for row in event.rows)
    found = replay_and_shrink(Replay(catalog, family, seed=1, slots=LARGE, device="cuda"), drawn)
    assert (found.status, found.reason) == (Status.OK, "")


@pytest.mark.slow
def test_bits_are_not_compared_where_a_sequence_has_several_slots(bench):
    for op in ("decode-split", "verify-rollback"):
        done = bench("verify", f"{op}-reference", "--invariance", "--gpu", "cpu", "-q")
        assert (done.code, f"sequences of {op} have several slots" in done.err) == (2, True)
