"""Follows kernels along sequences: call after call on their own states, beside the recurrence in float64.

All sequences, one of each profile and kind of keys, are one batch. On a GPU a stretch of tokens is captured into a CUDA
graph with its part of the reference and replayed, so that the host waits at marks alone; what is longer than a stretch,
a call of prefill, is launched as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import BuildError, DeclarationError, NotInterpretedError, tell_raised
from gdnbench.launch.bind import Launcher, load
from gdnbench.launch.interpret import interpreter_for
from gdnbench.launch.numerics import SequenceNumerics, call_numerics, load_sequence_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Case
from gdnbench.model.declaration import Dtype, RoundoffGate
from gdnbench.model.op import Op
from gdnbench.model.sequences import SequenceLayout
from gdnbench.model.status import LengthMark, Status
from gdnbench.sequences import Stretch
from gdnbench.store.journal import BUILD_STEPS, EventChannel, Examined, StepBegun
from gdnbench.verify.check import consult_oracle, gate_error, name_outputs
from gdnbench.verify.length import KEYS, WINDOW, fault_of
from gdnbench.workers.device import CpuDevice, CudaDevice, TamperingError, TamperWatch, WorkerDevice, is_alive
from gdnbench.workers.task import Phase, Task

Tensors = dict[str, torch.Tensor]

DRAWN = 1024  # tokens that are drawn at a time, but for calls that take more: the host waits for the GPU at each draw
REPORT_S = 1.0  # between two reports of where a sequence is
SLOWNESS = 10  # of a step in an interpreter


def follow_all(task: Task, channel: EventChannel) -> None:
    """Follows each case; returns early if the process loses its device."""
    device: WorkerDevice = CudaDevice() if task.device == "cuda" else CpuDevice()
    watch = TamperWatch(device)  # before declarations are loaded, which run code
    catalog = load_catalog(map(Path, task.roots), only=task.op)
    op = catalog.ops[task.op]
    numerics = load_sequence_numerics(op, catalog.op_folders[op.name])
    with device.current():
        for case in task.cases:
            examined = _follow(task, channel, device, catalog.entries[case.variant.kernel], case, numerics)
            try:
                watch.check()
            except TamperingError as error:
                examined = Examined(case.id, Status.TAMPERS, str(error), poisoned=True)
            channel.send(examined)
            if examined.poisoned:
                return


def _follow(
    task: Task, channel: EventChannel, device: WorkerDevice, entry: CatalogEntry, case: Case, numerics: SequenceNumerics
) -> Examined:
    """The errors of one case at the task's marks, and whether they are those of its roundings."""
    if unfit := entry.unfit(task.device, case.workload) if task.phase is not Phase.INTERPRET else None:
        return Examined(case.id, *unfit)
    if reason := entry.kernel.unsupported_reason(case.workload):
        return Examined(case.id, Status.UNSUPPORTED, reason)
    marks: list[LengthMark] = []
    is_interpreted = task.phase is Phase.INTERPRET
    limit_s = task.step_limit_s * (SLOWNESS if is_interpreted else 1)
    channel.send(StepBegun(case.id, "load", task.step_limit_s * BUILD_STEPS))
    try:
        workspace = Workspace.make(
            entry.op, numerics, case.workload, seed=task.seed, device=task.device, scenario=entry.op.scenarios[0]
        )
        workspace.pristine[SequenceLayout.of(entry.op).before].zero_()
        workspace.restore()
        run = _bind(entry, case, workspace, is_interpreted=is_interpreted)
        tell = _Progress(channel, case.id, task.marks[-1], limit_s)
        batch = FollowedBatch(run, workspace, numerics, entry.kernel.in_place, kinds_of(task.profiles), task.seed, tell)
        marks.extend(mark for tokens in task.marks for mark in batch.reach(tokens, device))
    except NotInterpretedError as error:
        return Examined(case.id, Status.UNSUPPORTED, error.message)
    except BuildError as error:
        return Examined(case.id, Status.BUILD_FAILED, error.message)
    except Exception as error:
        alive = is_alive(device)
        status = Status.FAILED if alive else Status.CRASHED
        return Examined(case.id, status, tell_raised(error, entry.folder), marks=tuple(marks), poisoned=not alive)
    fault = fault_of(marks, _arithmetic(entry.op))
    return Examined(case.id, Status.WRONG_NUMBERS if fault else Status.OK, fault, marks=tuple(marks))


def kinds_of(profiles: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The kinds of sequences, by profile and keys."""
    return tuple((profile, keys) for profile in profiles for keys in KEYS)


def _arithmetic(op: Op) -> Dtype:
    """The coarsest arithmetic that a gate of the op allows; fp32 if none says."""
    allowed: list[Dtype] = [gate.arithmetic for gate in op.gates if isinstance(gate, RoundoffGate)]
    return "bf16" if "bf16" in allowed else "fp16" if "fp16" in allowed else "fp32"


def _bind(entry: CatalogEntry, case: Case, workspace: Workspace, *, is_interpreted: bool) -> Launcher:
    if not is_interpreted:
        return load(entry, case.variant, case.workload)(workspace)
    workspace.begin(entry.kernel.in_place)
    interpreted = interpreter_for(entry, case.variant, case.workload)

    def run() -> tuple[torch.Tensor, ...]:
        if findings := interpreted.run(workspace, counts_traffic=False).findings:
            raise RuntimeError(str(findings[0]))  # of an address or a race: `verify` has its status
        return workspace.output_tensors

    return run


@dataclass
class _Progress:
    """Tells the parent where a sequence is, which restarts the limit of the step."""

    channel: EventChannel
    case: str
    last: int
    limit_s: float

    def __post_init__(self) -> None:
        self._begun_s = self._reported_s = monotonic()

    def __call__(self, tokens: int) -> None:
        now_s = monotonic()
        if tokens and now_s - self._reported_s < REPORT_S:
            return
        left_s = (now_s - self._begun_s) * (self.last / tokens - 1) if tokens else 0.0
        more = f", about {left_s / 60:.0f} min more" if left_s > 90 else ""
        self._reported_s = now_s
        self.channel.send(StepBegun(self.case, f"token {tokens:,} of {self.last:,}{more}", self.limit_s))


class FollowedBatch:
    """Sequences of a batch, side by side in a kernel, in the reference, and in the emulation with rounded stores.

    `run` launches the kernel on `workspace`, whose states are zero, and which has a sequence of each of `kinds`, of a
    profile and keys. `in_place` are outputs that the kernel updates in place, with their inputs; `tell` is called with
    the number of tokens that are done.
    """

    def __init__(
        self,
        run: Launcher,
        workspace: Workspace,
        numerics: SequenceNumerics,
        in_place: Mapping[str, str],
        kinds: Sequence[tuple[str, str]],
        seed: int,
        tell: Callable[[int], None] = lambda _tokens: None,
    ) -> None:
        self._run, self._workspace, self._numerics, self._in_place = run, workspace, numerics, dict(in_place)
        self._kinds, self._seed, self._tell = kinds, seed, tell
        # Where the kernel keeps the states of an input that it updates in place
        self._held = {**workspace.inputs, **{kept: workspace.outputs[name] for name, kept in self._in_place.items()}}
        self._op = workspace.op
        self._layout = SequenceLayout.of(self._op)
        output, state = self._left_in(workspace.outputs)
        self._dtypes = output.dtype, state.dtype
        self._device = state.device
        self._tokens = output.shape[1]  # of a call
        if max(self._tokens, WINDOW) % min(self._tokens, WINDOW):
            raise DeclarationError(f"{self._op.name}: calls of {self._tokens} tokens miss the multiples of {WINDOW}")
        wide = partial(torch.zeros, dtype=torch.float64, device=self._device)
        self._states = wide(2, *state.shape)  # of the reference, of the emulation
        self._expected = wide(2, *output.shape[:1], WINDOW, *output.shape[2:])
        self._outputs = wide(*self._expected.shape[1:])
        self._sums = wide(4, len(kinds))  # of squares: both errors and the reference; the largest |S|
        self._drawn: Tensors = {}  # of the next tokens, [sequences, tokens, ...]
        self._now: Tensors = {}  # of them, the inputs of the calls of a stretch
        self._ready: Tensors = {}
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self._done = 0

    def reach(self, tokens: int, device: WorkerDevice) -> list[LengthMark]:
        """Takes the sequences to a number of tokens, a multiple of those of a call; gives their errors."""
        block = max(self._tokens, WINDOW)
        while self._done < tokens:
            self._tell(self._done)
            drawn = block if self._tokens > WINDOW else DRAWN
            if self._done % drawn == 0:
                self._draw(drawn)
            is_watched = self._done + block >= tokens
            for first in range(0, block, WINDOW):
                self._prepare((self._done + first) % drawn)
                self._take_stretch(device, is_watched=is_watched)
            if self._tokens > WINDOW:
                self._call(0, is_watched=is_watched)
                self._store(is_watched=is_watched)
            self._done += block
        return self._marks()

    def _draw(self, tokens: int) -> None:
        """Draws the next tokens of every sequence, [sequences, tokens, ...]."""
        drawn = [
            call_numerics(
                self._op,
                self._numerics,
                "draw_tokens",
                self._workspace.workload,
                Stretch(tokens, self._done // tokens, self._seed + place, str(self._device), profile, keys == KEYS[1]),
                self._workspace.inputs,
            )
            for place, (profile, keys) in enumerate(self._kinds)
        ]
        self._drawn = {name: torch.stack([each[name] for each in drawn]) for name in drawn[0]}

    def _prepare(self, first: int) -> None:
        """Takes the tokens of a stretch from those drawn, and computes what the reference takes of them."""
        tokens = {name: each[:, first : first + WINDOW] for name, each in self._drawn.items()}
        _put(self._now, tokens)
        inputs = {**self._workspace.inputs, **tokens}
        _put(self._ready, call_numerics(self._op, self._numerics, "ready", inputs, self._workspace.scalars))

    def _take_stretch(self, device: WorkerDevice, *, is_watched: bool) -> None:
        take = partial(self._take, is_watched=is_watched)
        if isinstance(device, CpuDevice) or self._done == 0:  # what loads at the first launch is loaded then
            take()
            return
        if is_watched not in self._graphs:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=device.stream, capture_error_mode="relaxed"):
                take()
            self._graphs[is_watched] = graph
        self._graphs[is_watched].replay()

    def _take(self, *, is_watched: bool) -> None:
        """Takes the tokens of a stretch; kernels' calls of more tokens follow behind."""
        if is_watched:
            self._sums.zero_()
        for token in range(WINDOW):
            self._tell(self._done + token)  # while a graph is captured, too; not in its replays, which are short
            if token % self._tokens == 0 and self._tokens <= WINDOW:
                self._call(token, is_watched=is_watched)
            ready = {name: each[:, token] for name, each in self._ready.items()}
            self._expected[:, :, token] = self._numerics.advance(ready, self._states)
            if (token + 1) % self._tokens == 0:
                self._store(is_watched=is_watched)

    def _call(self, first: int, *, is_watched: bool) -> None:
        """Launches the kernel on its own states and the tokens from `first` on; keeps the outputs that are watched."""
        for name, each in (self._now if self._tokens <= WINDOW else self._drawn).items():
            tokens = each[:, first : first + self._tokens]
            self._workspace.inputs[name].copy_(tokens.reshape(self._workspace.inputs[name].shape))
        self._given = self._named(self._run())
        if is_watched:
            output, _ = self._left_in(self._given)
            self._outputs[:, first : first + self._tokens] = output[:, -WINDOW:]
        if not self._in_place:
            self._carry(self._left_in(self._given)[1])

    def _left_in(self, outputs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """The output [sequences, tokens, ...] of a call, and the states [sequences, ...] after its last tokens."""
        layout, output, states = self._layout, outputs[self._layout.output], outputs[self._layout.after]
        if layout.states_lie == "pool":
            states = states[self._held[layout.declared.slot].long()]
        elif layout.states_lie == "tokens":
            states = states[:, -1]
        sizes = list(zip(layout.specs[layout.output].dims, output.shape, strict=True))[len(layout.lead) :]
        return output.reshape(len(states), -1, *(size for dim, size in sizes if dim != 1)), states

    def _carry(self, states: torch.Tensor) -> None:
        """Puts states where the next call finds them."""
        held, slot = self._workspace.inputs[self._layout.before], self._layout.declared.slot
        if slot:
            held.index_copy_(0, self._workspace.inputs[slot].long(), states.to(held.dtype))
        else:
            held.copy_(states)

    def _named(self, outputs: Sequence[torch.Tensor]) -> Tensors:
        return name_outputs(self._op, outputs, {name: each.shape for name, each in self._workspace.outputs.items()})

    def _store(self, *, is_watched: bool) -> None:
        """Rounds the emulation's states as the op stores them; adds up errors, and the largest |S|, in the window."""
        exact, emulated = self._states
        emulated.copy_(emulated.to(self._dtypes[1]))
        if is_watched:
            left = self._left_in(self._given)[1].double()
            for place, each in enumerate((left - exact, emulated - exact, exact)):
                self._sums[place] += each.flatten(1).square().sum(1)
            self._sums[3] = torch.maximum(self._sums[3], left.flatten(1).abs().amax(1))

    def _marks(self) -> list[LengthMark]:
        own, emulated, size, largest = self._sums
        exact, rounded = self._expected
        rounded = rounded.to(self._dtypes[0]).double()
        columns = (
            own.div(size).sqrt(),
            emulated.div(size).sqrt(),
            _relative(self._outputs, exact),
            _relative(rounded, exact),
            largest,
            self._gate_shares(),
        )
        rows = torch.stack(columns, 1).tolist()
        state_type = str(self._dtypes[1]).removeprefix("torch.")
        return [LengthMark(*kind, state_type, self._done, *row) for kind, row in zip(self._kinds, rows, strict=True)]

    def _gate_shares(self) -> torch.Tensor:
        """The largest error of a further call, with the last tokens again, of what gates allow, by sequence."""
        before = {name: each.clone() for name, each in self._held.items()}
        expected = consult_oracle(replace(self._workspace, inputs=before, pristine=before), self._numerics)
        outputs = self._named(self._run())
        errors = {gate.tensor: gate_error(gate, outputs[gate.tensor], expected) for gate in self._op.gates}
        shares = [each.flatten(1).amax(1) for each in self._left_in(errors)]
        for kept in self._in_place.values():
            self._held[kept].copy_(before[kept])
        return torch.maximum(*shares)


def _relative(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """The 2-norm of a difference relative to that of `exact`, by sequence."""
    relative: torch.Tensor = (found - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
    return relative


def _put(into: Tensors, found: Tensors) -> None:
    """Copies tensors to where graphs read them; at first they are that."""
    for name, each in found.items():
        if name in into:
            into[name].copy_(each)
        else:
            into[name] = each.clone()
