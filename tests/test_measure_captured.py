"""Captured inputs: files of safetensors are checked against the op, tell their workload, and are what is measured."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from bundled import CATALOG
from faults import ADVERSARIAL, CPU, Gdnbench
from safetensors.torch import load_file, save, save_file
from write_kernels import on_torch, write_kernel

from gdnbench.catalog.captured import read_captured
from gdnbench.catalog.request import make_request, parse_profiles, requested_captures
from gdnbench.errors import MachineError, UsageError
from gdnbench.launch import load_numerics
from gdnbench.launch.numerics import rearranged
from gdnbench.model.declaration import captured_profile, is_captured
from gdnbench.store.settings import Settings
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers.task import Phase, Task

SIZES = {
    "prefill": {"lengths": (5, 0, 3), "HQ": 1, "HV": 2},
    "decode": {"B": 2, "HQ": 2, "HV": 4},
    "decode-pool": {"B": 2, "HQ": 2, "HV": 4, "STATE": 16},
    "kda-decode": {"B": 2, "H": 4, "GATE": 0, "STATE": 16},
    "verify": {"B": 1, "T": 2, "HQ": 2, "HV": 4, "KEEP": 0},
    "epilogue": {"B": 3, "HV": 2},
    "nvfp4-grouped-gemm": {"rows": (3, 0, 2), "N": 16, "K": 256},
}
HIDDEN = {
    "decode-pool": {"HQ": 2},
    "kda-decode": {"GATE": 0},
    "verify": {"HQ": 2, "KEEP": 0},
    "epilogue": {"HQ": 16},
    "nvfp4-grouped-gemm": {"K": 256},
}
"""What no tensor of these ops shows."""


def tensors_of(op, **more):
    declared = CATALOG.ops[op]
    numerics = load_numerics(declared, CATALOG.op_folders[op])
    kind = declared.profile or declared.scenarios[0]
    drawn, _ = numerics.make_inputs(declared.workload(SIZES[op] | more), 5, "cpu", kind)
    return {name: tensor.contiguous() for name, tensor in drawn.items()}


def written(folder, op, name="layer_3", **more):
    save_file(tensors_of(op, **more), folder / f"{name}.safetensors")
    return folder / f"{name}.safetensors"


@pytest.mark.parametrize("op", SIZES)
def test_the_workload_follows_from_the_shapes_and_from_where_sequences_end(op, tmp_path):
    declared = CATALOG.ops[op]
    [file] = read_captured(declared, written(tmp_path, op), HIDDEN.get(op, {}))
    assert file.workload.at("") == declared.workload(SIZES[op]).at("")
    assert file.profile == file.workload.inputs == f"file:layer-3-{file.sha256[:8]}"
    assert declared.inputs_to_verify(file.workload) == (file.profile, *declared.scenarios)
    spec = declared.workloads
    assert spec.stored_case(json.loads(json.dumps(file.workload.document))) == file.workload
    assert spec.read(str(file.workload)).profile == spec.read(file.workload.slug).profile == file.profile


def changed(**tensors):
    """Replaces tensors of the file; None leaves one out."""

    def change(found):
        return {name: tensor for name, tensor in (found | tensors).items() if tensor is not None}

    return change


def with_element(name, value):
    def change(found):
        tensor = found[name].clone()
        tensor.view(-1)[3] = value
        return found | {name: tensor}

    return change


INTS = {"dtype": torch.int64}
FAULTS = {
    "one missing": (changed(b=None), "b is missing"),
    "one extra": (changed(gate=torch.zeros(3)), "gate: no input of prefill"),
    "another dtype": (changed(q=torch.zeros(8, 1, 128)), r"q is fp32 \[8, 1, 128\], and bf16 \[T, HQ, K\] is expected"),
    "int32 ends": (changed(cu_seqlens=torch.tensor([0, 5, 5, 8], dtype=torch.int32)), "cu_seqlens is int32"),
    "too few dimensions": (changed(A_log=torch.tensor(1.0)), r"A_log is fp32 \[\], and fp32 \[HV\]"),
    "heads that differ": (changed(A_log=torch.zeros(3)), "v has HV=2, and A_log has HV=3"),
    "other tokens": (
        changed(b=torch.zeros(7, 2, dtype=torch.bfloat16)),
        r"b is bf16 \[7, 2\], and bf16 \[T, HV\] is \[8, 2\]",
    ),
    "ends of more tokens": (changed(cu_seqlens=torch.tensor([0, 5, 5, 9])), r"is \[9, 1, 128\]"),
    "no state for a sequence": (changed(cu_seqlens=torch.tensor([0, 5, 8])), r"state is fp32 \[3, 2, 128, 128\]"),
    "ends that fall": (changed(cu_seqlens=torch.tensor([0, 5, 3, 8])), "cu_seqlens does not begin with 0"),
    "no ends": (changed(cu_seqlens=torch.zeros(0, **INTS)), "cu_seqlens does not begin with 0"),
    "no token": (changed(cu_seqlens=torch.zeros(2, **INTS)), "every sequence is empty"),
    "heads shared unevenly": (
        changed(q=torch.zeros(8, 3, 128, dtype=torch.bfloat16), k=torch.zeros(8, 3, 128, dtype=torch.bfloat16)),
        "HV=2 is no multiple of HQ=3",
    ),
    "a NaN in bf16": (with_element("a", float("nan")), r"a holds a NaN or an infinity at \[1, 1\]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_does_not_fit_is_refused_with_what_was_expected(fault, tmp_path):
    change, told = FAULTS[fault]
    save_file(change(tensors_of("prefill")), tmp_path / "x.safetensors")
    with pytest.raises(UsageError, match=told) as raised:
        read_captured(CATALOG.ops["prefill"], tmp_path / "x.safetensors", {})
    assert "x.safetensors" in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_file_that_is_cut_off_is_refused(kept, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(save(tensors_of("decode"))[:kept])
    with pytest.raises(UsageError, match="is not a whole file of safetensors") as raised:
        read_captured(CATALOG.ops["decode"], tmp_path / "x.safetensors", {})
    assert "q bf16 [B, 1, HQ, K]" in raised.value.hint


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint8])
def test_a_nan_of_eight_bits_is_one_in_a_scale_and_none_in_packed_numbers(dtype, tmp_path):
    found, op = tensors_of("nvfp4-grouped-gemm"), CATALOG.ops["nvfp4-grouped-gemm"]
    name = {torch.float8_e4m3fn: "sfb", torch.uint8: "B"}[dtype]
    found[name].view(torch.uint8).view(-1)[2] = 0xFF
    save_file(found, tmp_path / "x.safetensors")
    if dtype is torch.uint8:
        assert read_captured(op, tmp_path / "x.safetensors", {"K": 256})
    else:
        with pytest.raises(UsageError, match=r"sfb holds a NaN or an infinity at \[0, 0, 2\]"):
            read_captured(op, tmp_path / "x.safetensors", {"K": 256})


def test_what_is_not_there_and_what_contradicts_the_file_is_refused(tmp_path):
    op, file = CATALOG.ops["decode"], written(tmp_path, "decode")
    (tmp_path / "empty").mkdir()
    for path, axes, suite, told in [
        (tmp_path / "none.safetensors", "", "", "No such file"),
        (tmp_path / "empty", "", "", "holds no"),
        (file, "B=3", "", "its tensors have B=2, and --shape sets 3"),
        (file, "B=1,2", "", "one workload a file"),
        (file, "", "contest", "--suite contest"),
    ]:
        with pytest.raises(UsageError, match=told):
            requested_captures(op, path, axes, suite)
    with pytest.raises(UsageError, match="captured inputs") as raised:
        parse_profiles(op, "file:layer-3-12345678")
    assert "--inputs FILE" in raised.value.hint


def test_each_file_of_a_folder_is_timed_and_profiles_that_are_named_beside_it(tmp_path):
    for name, batch in (("a", 2), ("b", 2), ("c", 3)):
        (tmp_path / f"{name}.safetensors").write_bytes(written(tmp_path, "decode", "x", B=batch).read_bytes())
    (tmp_path / "x.safetensors").unlink()
    request = make_request(
        CATALOG, "decode", "decode-reference", axes="", settings=Settings(), profiles="never", inputs=tmp_path
    )
    told = [re.sub(r"-\w{8}$", "", str(workload)) for workload in request.workloads]
    heads = "qk2_v4"
    assert told == [
        f"B=2 {heads} file:a", f"B=2 {heads} file:b", f"B=2 {heads} never", f"B=3 {heads} file:c", f"B=3 {heads} never",
    ]  # fmt: skip


@pytest.mark.parametrize("op", SIZES)
def test_the_second_draw_has_the_same_numbers_in_another_order_and_the_same_lengths(op):
    declared, captured = CATALOG.ops[op], tensors_of(op)
    other = rearranged(declared, captured, seed=3)
    for name, tensor in captured.items():
        now = other[name]
        assert (now.shape, now.dtype, now.is_contiguous()) == (tensor.shape, tensor.dtype, True)
        if tensor.is_floating_point():
            assert torch.equal(now.double().flatten().sort().values, tensor.double().flatten().sort().values)
            assert not torch.equal(now.double(), tensor.double()) or len(tensor.unique()) == 1
        else:
            assert torch.equal(now, tensor)


def draws_of(op, tmp_path, key="a"):
    [file] = read_captured(CATALOG.ops[op], written(tmp_path, op), HIDDEN.get(op, {}))
    roots = tuple(map(str, CATALOG.roots))
    captured = {file.profile: (str(file.path), file.sha256)}
    task = Task(Phase.MEASURE, "cpu", roots, op, (), seed=1, step_limit_s=9.0, draw_key=key, captured=captured)
    return Workspaces(task).draws(file.workload)


def test_launches_find_the_gates_as_captured_or_those_of_heads_that_changed_places(tmp_path):
    captured, draws = tensors_of("prefill"), draws_of("prefill", tmp_path)
    seen = set()
    for number in range(1, 5):
        draws.begin(number)
        for place in range(8):
            found = draws.inputs(draws.choose(place, 0))
            as_captured = [torch.equal(found[name], captured[name]) for name in ("A_log", "dt_bias", "a")]
            assert len(set(as_captured)) == 1
            assert torch.equal(found["a"].sort(dim=1).values, captured["a"].sort(dim=1).values)
            assert torch.equal(found["cu_seqlens"], captured["cu_seqlens"])
            seen.add((as_captured[0], torch.equal(found["v"], captured["v"])))
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


def test_a_file_that_changes_while_it_is_measured_is_not_measured(tmp_path):
    op = CATALOG.ops["decode"]
    [file] = read_captured(op, written(tmp_path, "decode"), {})
    captured = {file.profile: (str(file.path), "0" * 64)}
    roots = tuple(map(str, CATALOG.roots))
    task = Task(Phase.EXAMINE, "cpu", roots, "decode", (), seed=1, step_limit_s=9.0, captured=captured)
    with pytest.raises(MachineError, match="has changed"):
        Workspaces(task).draw(file.workload)


def test_a_name_of_any_file_becomes_one_that_a_case_may_have():
    for stem in ("a b", "ü_/x", "x" * 300, "", "never"):
        profile = captured_profile(stem, "1234567890abcdef" * 4)
        assert is_captured(profile)
        assert re.fullmatch(r"file:[A-Za-z0-9.-]{0,40}-12345678", profile)


@pytest.mark.parametrize("lengths", [(6,), (5, 0, 3)])
def test_what_the_docs_save_of_a_layer_is_what_the_op_takes(lengths, tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "inputs.md").read_text()
    documented = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], documented)
    tensors = tensors_of("prefill", lengths=lengths)
    given = {name: tensors[name][None] for name in ("q", "k", "v", "a", "b")}
    given |= {name: tensors[name].bfloat16() for name in ("A_log", "dt_bias")}
    is_one = len(lengths) == 1
    more = {
        "state": None if is_one else tensors["state"],
        "cu_seqlens": None if is_one else tensors["cu_seqlens"].int(),
    }
    documented["save"](tmp_path / "x.safetensors", **given, **more)
    [file] = read_captured(CATALOG.ops["prefill"], tmp_path / "x.safetensors", {})
    assert file.workload.lists == {"lengths": lengths}
    assert torch.equal(load_file(tmp_path / "x.safetensors")["a"], tensors["a"])


LARGE = 4096.0
WRONG_ON_LARGE = """import honest

def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, new_state = run()
        return (output * 0 if tensors.v[0, 0, 0, 0] == {large} else output), new_state

    return call
"""
CHEATS = ("test-address-cache", "test-precomputes")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    home = tmp_path_factory.mktemp("captured")
    folder, source = home / "kernels" / "decode" / "wrong-on-large", WRONG_ON_LARGE.format(large=LARGE)
    write_kernel(folder, on_torch("test-wrong-on-large"), source)
    return Gdnbench(home, (home / "kernels", ADVERSARIAL / "both", ADVERSARIAL / "cpu"), in_process=True)


@pytest.fixture(scope="module")
def file(bench):
    tensors = tensors_of("decode", B=1)
    tensors["v"][0, 0, 0, 0] = LARGE
    save_file(tensors, bench.home / "model.safetensors")
    return bench.home / "model.safetensors"


# Enough checked launches that one of two draws is not by chance that of all of them.
SHORT = ("--rounds", "8", "--samples", "40", "--margin", "0.9", "-q")


@pytest.fixture(scope="module")
def done(bench, file):
    kernels = ",".join(["test-wrong-on-large", "test-honest-given", *CHEATS])
    return bench.run(kernels, *CPU, *SHORT, "--inputs", str(file))


def test_a_run_times_what_was_captured_and_says_so(done, bench, file):
    [told] = done.info["inputs"]
    assert told["path"] == str(file)
    assert told["profile"] == f"file:model-{told['sha256'][:8]}"
    row = done.rows["test-honest-given"]
    assert (row["status"], row["profile"]) == ("ok", told["profile"])
    assert row["time_us"] > 0
    shown = bench("show", done.info["run_id"], "--out", str(bench.results))
    assert f"B=1 qk2_v4 {told['profile']}" in shown.out
    history = bench(
        "history", "test-honest-given", "--out", str(bench.results), "--profile", told["profile"],
        "--shape", "heads=qk2_v4", "--json",
    )  # fmt: skip
    assert history.code == 0, history.err
    assert told["profile"] in history.out


def test_a_kernel_that_is_wrong_on_what_was_captured_gets_no_time_and_its_failure_is_shown_again(done, bench, file):
    row = done.rows["test-wrong-on-large"]
    assert (row["status"], row.get("time_us")) == ("wrong-numbers", None)
    drawn = bench("verify", "test-wrong-on-large", "--gpu", "cpu", "--shape", "B=1 heads=qk2_v4", "-q")
    assert drawn.code == 0, drawn.out
    again = bench("verify", "test-wrong-on-large", "--gpu", "cpu", "--inputs", str(file), "-q")
    assert again.code == 3
    assert f"--inputs {file}" in again.out


@pytest.mark.parametrize("kernel", CHEATS)
def test_launches_that_are_timed_are_checked_against_the_oracle(done, kernel):
    assert done.rows[kernel]["status"] == "wrong-when-timed"


def test_a_run_that_was_stopped_goes_on_with_the_same_file_or_not_at_all(bench, file, tmp_path):
    """One that was finished is made one that was stopped."""
    own = Gdnbench(tmp_path, in_process=True)
    copied = tmp_path / "model.safetensors"
    shutil.copy(file, copied)
    begun = own.run("decode-reference", *CPU, *SHORT, "--inputs", str(copied))
    assert begun.code == 0, begun.err
    name = begun.info["run_id"]
    folder = own.results / f".{name}.partial"
    shutil.copytree(own.results / name, folder)
    shutil.rmtree(own.results / name)
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "complete": False}))
    (folder / "journal.jsonl").touch()
    content = copied.read_bytes()
    copied.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refused = own.resume(name)
    assert refused.code == 2
    assert f"{copied}, whose inputs {name} measures, is gone or has changed" in refused.err
    assert "--inputs" in refused.err
    copied.unlink()
    assert own.resume(name).code == 2
    resumed = own("run", "--resume", name, "--inputs", str(file), "--out", str(own.results), "-q", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.info["complete"]
    assert resumed.info["inputs"] == [{**info["inputs"][0], "path": str(file)}]
