"""Every line that is proposed runs: its verb takes the options, and its kernels and params exist."""

from dataclasses import replace

import pytest
import typer
from diagnose_data import SPECIMENS, coded, kernels, measured, recorded
from launches_data import toys
from test_diagnose_rules import CAUSES

from gdnbench.catalog.request import make_request, parse_workloads
from gdnbench.catalog.select import find_variant, resolve_op
from gdnbench.diagnose import experiment
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.gather import RULES, rank
from gdnbench.measure.plan import choose_sweep_settings, make_sweep_request
from gdnbench.model.case import CodeState
from gdnbench.model.gpu import Gpu
from gdnbench.store.settings import choose_settings as settings_of_run
from gdnbench.verbs.app import app
from gdnbench.verbs.options import joined, sizes, terms

H200 = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0), sms=132)
AT_64 = measured(23.8, empty=7.56, copy=20.55, copy_bytes=67_108_864, decode_triton=21.3, decode_v1=21.6)
SEVERAL = measured(28.6, empty=2.74, copy=3.99, launches=11, decode_triton=4.35)
AT_1 = measured(4.6, empty=2.74, copy=3.99, decode_v6=4.39, decode_triton=4.35, decode_v2=6.97)


def parsed(command):
    """The values that a command line gives to its verb; fails as the command line would."""
    program, verb, *arguments = command
    assert program == "gdnbench"
    return typer.main.get_command(app).commands[verb].make_context(verb, list(arguments)).params


def op_of(values):
    """The op that the verb makes of what it is given; no command that is proposed needs `--op`."""
    return resolve_op(kernels(), values["op"], [*terms(values["kernels"], values["kernel"]), values.get("diff") or ""])


def check_run(values):
    settings = settings_of_run(
        "cuda", quick=True, rounds=None, samples=None, processes=None, seed=None, margin=0.005, step_limit_s=30.0,
        plain=False,
    )  # fmt: skip
    named = joined(terms(values["kernels"], values["kernel"]))
    make_request(kernels(), op_of(values), named, axes=sizes(values["shape"]), settings=settings)


def check_sweep(values):
    settings = choose_sweep_settings("cuda", budget="60s", samples=100, seed=1, margin=0.005, step_limit_s=30.0)
    make_sweep_request(
        kernels(),
        op_of(values),
        terms(values["kernels"], values["kernel"]),
        list(values["param"] or []),
        axes=sizes(values["shape"]),
        settings=settings,
        gpu=H200,
        baseline="",
        label="",
    )


def check_labels(values):
    for label in (*values["kernels"], values["diff"]):
        if label:
            find_variant(kernels(), op_of(values), label)
    parse_workloads(kernels().ops[op_of(values)], sizes(values["shape"]))


def check_new(values):
    assert values["name"] not in kernels().entries
    find_variant(kernels(), "decode", values["origin"])


CHECKS = {"run": check_run, "sweep": check_sweep, "inspect": check_labels, "ncu": check_labels, "new": check_new}


def check(tried):
    assert tried.why
    CHECKS[tried.command[1]](parsed(tried.command))


def proposed(evidence):
    return [finding.experiment for rule in RULES if (finding := rule(evidence))]


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("times", [None, AT_1, SEVERAL])
def test_what_rules_propose_from_counters_runs(name, times):
    [evidence, *_] = recorded(name)
    for tried in proposed(replace(evidence, measured=times)):
        check(tried)


@pytest.mark.parametrize("label", ["decode-v1", "decode-v3", "decode-rowreg-w2", "decode-triton", "decode-v4b"])
@pytest.mark.parametrize(("batch", "times"), [(1, None), (1, AT_1), (64, AT_64)])
def test_what_rules_propose_from_the_code_runs(label, batch, times):
    evidence = coded(label, batch, times)
    for tried in [*proposed(evidence), experiment.profile(evidence), experiment.measure(evidence)]:
        check(tried)


def test_a_copy_by_hand_is_made_as_it_is_proposed(command_line, monkeypatch, tmp_path):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(SPECIMENS))
    for name in ("test-spilling-B64", "test-conflicts-B64"):
        _, *arguments = rank(recorded(name)[0])[0].experiment.command
        code, out, err = command_line(*arguments, "--to", tmp_path)
        assert (code, "kernel.cu" in out) == (0, True), err


def test_a_copy_takes_a_name_that_is_free():
    evidence = coded("test-spilling")
    taken = {**evidence.catalog.entries, "decode-spilling-rows": evidence.entry}
    tried = experiment.by_hand(replace(evidence, catalog=replace(evidence.catalog, entries=taken)), "rows", "change it")
    assert tried.command[2] == "decode-spilling-rows-2"


def test_the_code_is_compared_with_the_fastest_kernel_of_such_launches():
    evidence = coded("decode-v4", 1, AT_1)
    assert experiment.shorter_path(evidence).command[3:5] == ("--diff", "decode-triton")
    assert experiment.fewer_instructions(evidence).command[3:5] == ("--diff", "decode-triton")
    split = experiment.shorter_path(_gemm("gemm-cuda", gemm_cuda=9.0, gemm_split=5.0))
    assert "--diff" not in split.command


def test_a_kernel_whose_code_changed_since_is_no_peer():
    changed = replace(AT_1, changed=("decode-v6", "decode-triton"))
    evidence = coded("decode-v4", 1, changed)
    assert "--diff" not in experiment.shorter_path(evidence).command
    assert "--diff" not in experiment.fewer_instructions(evidence).command


def test_more_warps_are_swept_or_made_by_hand():
    assert experiment.more_warps(coded("decode-triton:BV=16")).command[:3] == ("gdnbench", "sweep", "--kernel")
    assert experiment.more_warps(coded("test-spilling")).command[:3] == ("gdnbench", "new", "decode-spilling-warps")


def test_times_of_other_code_compare_with_none():
    evidence = coded("decode-v4", 1, replace(AT_1, code=CodeState.CHANGED))
    assert "--diff" not in experiment.shorter_path(evidence).command
    assert "--diff" not in experiment.fewer_instructions(evidence).command
    assert experiment.less_traffic(evidence) == experiment.measure(evidence)


def _gemm(label, **times_us):
    """Evidence of a toy, with a run in which each kernel took so long."""
    entry = toys().entries[label]
    workload = entry.op.default
    times = replace(measured(times_us[label.replace("-", "_")], **times_us), code=CodeState.CURRENT)
    return Evidence(toys(), entry, entry.at(entry.default, workload), workload, measured=times)


def test_counters_of_one_launch_and_of_several_are_set_side_by_side():
    faster = experiment.fewer_instructions(_gemm("gemm-cuda", gemm_cuda=9.0, gemm_split=5.0))
    assert faster.command == ("gdnbench", "ncu", "gemm-cuda", "gemm-split", "--shape", "M=64")
    alike = experiment.fewer_instructions(_gemm("gemm-cuda", gemm_cuda=9.0, gemm_triton=5.0))
    assert alike.command == ("gdnbench", "ncu", "gemm-cuda", "--diff", "gemm-triton", "--shape", "M=64")
