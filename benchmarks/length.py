"""How far are states off along a sequence? The figures of docs/verifying.md.

Follows kernels by `verify --length`, writes what that prints as CSV, and prints the page's tables. Without a GPU these
are the references of decode-pool, with fp32 and bf16 states, and of decode, which take minutes; they are kept in
`benchmarks/length.csv`. `--gpu` follows kernels to a million tokens, and a decode step in torch whose states are fp16,
which no op has; each into a file of `benchmarks/length-gpu/`, or those that are named behind it alone. `--stored`
prints the tables of the files as they are, and draws the page's picture of the single steps.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from gdnbench.launch.workspace import Workspace

STORED = Path(__file__).with_suffix(".csv")
OF_POOL = ("decode-pool-reference", "--length", "1k,4k,16k")
OF_DECODE = ("decode-reference", "--length", "1k,4k,16k,64k", "--profile", "never")
LONG = (1024, 4096, 16384, 65536, 262144, 1048576)
MARKS = ",".join(map(str, LONG))
ON_GPU: Mapping[str, Sequence[str]] = {
    "pool-bf16": ("decode-pool-v2", "--shape", "state=bf16", "--length", MARKS),
    "pool-fp32": ("decode-pool-v2", "--shape", "state=fp32", "--length", MARKS),
    "prefill": ("prefill-v6", "--length", MARKS),
    "verify": ("verify-v2", "--shape", "state=bf16", "--length", MARKS),
    "kda": ("kda-decode-v2", "--shape", "state=bf16", "--length", "1k,4k,16k,64k,256k"),
}
FP16 = "fp16"
PICTURE, PICTURED, DEVICE = STORED.parents[1] / "docs" / "length.svg", ("pool-fp32", "pool-bf16"), "NVIDIA H200"
PROFILES = ("forgetful", "mixed-heads", "never")
_FIELDS = (
    *("kernel", "state_type", "profile", "keys", "tokens", "state_error", "emulated_state_error"),
    *("output_error", "emulated_output_error", "largest_state", "gate_share"),
)

Mark = Mapping[str, object]
"""A row of a file."""


def main(words: Sequence[str]) -> None:
    """Measures, unless `--stored`, and prints the tables."""
    if "--gpu" in words:
        for name in [*words[words.index("--gpu") + 1 :]] or [*ON_GPU, FP16]:
            marks = follow_fp16() if name == FP16 else follow(ON_GPU[name], "--gpu", "auto")
            write(STORED.with_name("length-gpu") / f"{name}.csv", marks)
        return
    if "--stored" not in words:
        write(STORED, [mark for command in (OF_POOL, OF_DECODE) for mark in follow(command, "--gpu", "cpu")])
    print("\n".join((*table(read()), *long_table(read_long()))))
    draw(PICTURE)


def follow(command: Sequence[str], *more: str) -> list[Mark]:
    """The marks of kernels that are followed, by seed 1."""
    verify = [sys.executable, "-m", "gdnbench", "verify", *command, *more, "--seed", "1", "--csv", "-q"]
    done = subprocess.run([*verify, "--fresh"], check=False, stdout=subprocess.PIPE, text=True)
    marks: list[Mark] = [*csv.DictReader(done.stdout.splitlines())]
    if marks:
        return marks
    raise SystemExit(done.returncode)


def follow_fp16() -> list[Mark]:
    """The marks of a decode step in torch, fp32 but for its states, which are fp16, on a GPU."""
    import torch

    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.launch.numerics import load_sequence_numerics
    from gdnbench.launch.workspace import Workspace
    from gdnbench.verify.follow import FollowedBatch, kinds_of
    from gdnbench.workers.device import CudaDevice

    catalog = load_catalog()
    op, kinds = catalog.ops["decode"], kinds_of(PROFILES)
    numerics = load_sequence_numerics(op, catalog.op_folders["decode"])
    workload = op.workload({"B": len(kinds), "HQ": 2, "HV": 4})
    inputs, outputs = (
        tuple(replace(spec, dtype="fp16") if "state" in spec.name else spec for spec in specs)
        for specs in (op.inputs, op.outputs)
    )
    device = CudaDevice()
    with device.current():
        drawn, scalars = numerics.make_inputs(workload, 1, "cuda", "typical")
        drawn["state"] = torch.zeros_like(drawn["state"], dtype=torch.float16)
        of_fp16 = replace(op, inputs=inputs, outputs=outputs)
        workspace = Workspace.holding(of_fp16, workload, drawn, scalars, device="cuda")
        batch = FollowedBatch(lambda: decode_step(workspace), workspace, numerics, {}, kinds, 1)
        marks = [mark for tokens in LONG for mark in batch.reach(tokens, device)]
    return [{"kernel": "a step in torch", **{name: getattr(mark, name) for name in _FIELDS[1:]}} for mark in marks]


def decode_step(workspace: Workspace) -> tuple[Tensor, ...]:
    """Takes a token of each sequence in fp32, from states of any type to states of that type."""
    from torch.nn.functional import softplus

    t = workspace.inputs
    state, share = t["state"].float(), t["v"].shape[2] // t["q"].shape[2]
    q, k = (t[name][:, 0].float().repeat_interleave(share, dim=1)[..., None, :] for name in ("q", "k"))
    g = (-t["A_log"].exp() * softplus(t["a"][:, 0].float() + t["dt_bias"])).exp()
    state = g[..., None, None] * state
    delta = t["b"][:, 0].float().sigmoid()[..., None] * (t["v"][:, 0].float() - (state * k).sum(-1))
    state = state + delta[..., None] * k
    output = workspace.scalars["scale"] * (state * q).sum(-1)
    return output[:, None].bfloat16(), state.to(t["state"].dtype)


def write(path: Path, marks: Iterable[Mark]) -> None:
    """Writes marks, without the columns of a workload."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, _FIELDS, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        rows.writerows(marks)


def read(path: Path = STORED) -> list[dict[str, str]]:
    """The marks of a file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_long() -> list[dict[str, str]]:
    """The marks of all kernels that were followed on a GPU."""
    return [mark for path in sorted(STORED.with_name("length-gpu").glob("*.csv")) for mark in read(path)]


def draw(path: Path) -> None:
    """Draws the errors of single steps on a GPU, a row of panels for each type of state."""
    from gdnbench.verbs.verify_states import draw_lengths

    stored = [mark for name in PICTURED for mark in read(STORED.with_name("length-gpu") / f"{name}.csv")]
    numbers = [name for name in _FIELDS if name.endswith("error") or name == "tokens"]
    draw_lengths(
        [{**mark, "label": mark["kernel"], **{name: float(mark[name]) for name in numbers}} for mark in stored],
        path,
        DEVICE,
    )


def table(marks: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yields the page's table of decode-pool-reference: a row for each profile and kind of keys."""
    of_pool = [mark for mark in marks if mark["kernel"] == OF_POOL[0]]
    yield (
        "| profile, keys | max abs(S) | fp32 state, 1k / 4k / 16k | bf16 state, 1k / 4k / 16k | rounded, 16k "
        "| output beside it, 16k |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    kinds = groupby(of_pool, lambda mark: (mark["state_type"], mark["profile"], mark["keys"]))
    by_kind = {key: list(group) for key, group in kinds}
    for (state_type, profile, keys), fp32 in by_kind.items():
        if state_type == "float32":
            bf16 = by_kind["bfloat16", profile, keys]
            largest = max(float(mark["largest_state"]) for mark in (*fp32, *bf16))
            errors = [" / ".join(_short(mark["state_error"]) for mark in each) for each in (fp32, bf16)]
            last = [_short(bf16[-1][name]) for name in ("emulated_state_error", "output_error")]
            yield f"| {profile}, {keys} | {largest:.1f} | {' | '.join([*errors, *last])} |"


def long_table(marks: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yields the page's table of errors on a GPU: a row for each kernel, type of state, profile and kind of keys."""
    yield "| kernel, state | profile, keys | max abs(S) | state at 4k / 64k / 1M | rounded, last | output, last |"
    yield "|---|---|--:|--:|--:|--:|"

    def kind_of(mark: Mapping[str, str]) -> tuple[str, ...]:
        return mark["kernel"], mark["state_type"], mark["profile"], mark["keys"]

    for (kernel, state_type, profile, keys), group in groupby(sorted(marks, key=kind_of), kind_of):
        of_kind = {int(mark["tokens"]): mark for mark in group}
        errors = " / ".join(_short(of_kind[each]["state_error"]) for each in (4096, 65536, max(of_kind)))
        largest = max(float(mark["largest_state"]) for mark in of_kind.values())
        last = [_short(of_kind[max(of_kind)][name]) for name in ("emulated_state_error", "output_error")]
        yield f"| {kernel}, {state_type} | {profile}, {keys} | {largest:.1f} | {errors} | {' | '.join(last)} |"


def _short(number: str) -> str:
    return f"{float(number):.1e}".replace("e-0", "e-")


if __name__ == "__main__":
    main(sys.argv[1:])
