"""The preflight: each case is loaded, launched, verified, launched again and captured before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import torch

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import BuildError, tell_raised
from gdnbench.launch.bind import Binder, Launcher, load
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Case, Variant
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.status import GateResult, Status
from gdnbench.store.journal import BUILD_STEPS, IMPORT_STEP, IMPORT_STEPS, EventChannel, Examined, StepBegun
from gdnbench.verify.check import (
    OnOutputs,
    Oracle,
    check_outputs,
    compare_launches,
    contest_error,
    launch_once,
    verify_kernel,
    verify_strided,
)
from gdnbench.verify.forms import FormTrial
from gdnbench.verify.invariance import InvarianceTest, claim_gates
from gdnbench.verify.pairs import InvariancePairs
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers.cold import SharedMemoryPoison
from gdnbench.workers.device import (
    CapturedCall,
    CpuDevice,
    CudaDevice,
    TamperingError,
    TamperWatch,
    ThreadWatch,
    WorkerDevice,
    capture,
    is_alive,
)
from gdnbench.workers.task import Task

LAUNCHES = 20


class UnfitError(Exception):
    """A case that failed its preflight, with its status."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def examine_all(task: Task, channel: EventChannel) -> None:
    """Examines the cases in turn; returns early if the process loses its device."""
    device = CudaDevice() if task.device == "cuda" else CpuDevice()
    watch = TamperWatch(device)  # before declarations are loaded, which run code
    workspaces = Workspaces(task)
    pairs = InvariancePairs(workspaces, task.device)
    trial = FormTrial(task, channel, device, workspaces)

    with device.current():
        poison_shared = SharedMemoryPoison() if isinstance(device, CudaDevice) else _nothing_to_poison

        def examine(case: Case) -> Examined:
            return Examination(task, channel, device, workspaces, pairs, case, poison_shared).conduct()

        for case in task.cases:
            examined = trial.conduct(case, examine)
            try:
                watch.check()
            except TamperingError as error:  # all results depend on what it replaced
                examined = Examined(case.id, Status.TAMPERS, str(error), poisoned=True)
            channel.send(examined)
            if examined.poisoned:
                return


def _nothing_to_poison() -> None:
    """Does nothing: a CPU has no shared memory."""


@dataclass(eq=False)
class Examination:
    """The preflight of one case."""

    task: Task
    channel: EventChannel
    device: WorkerDevice
    workspaces: Workspaces
    pairs: InvariancePairs
    case: Case
    poison_shared: Callable[[], None]

    def __post_init__(self) -> None:
        self._entry: CatalogEntry = self.workspaces.entry(self.case)
        self._gates: list[GateResult] = []
        self._result = Examined(self.case.id, Status.OK)

    def conduct(self) -> Examined:
        """Does every step until the first failure."""
        self._hide_expected()
        threads = ThreadWatch(self._entry.folder)
        try:
            self._check_requirements()
            bind = self._load()
            run = self._bind(bind)
            self._launch_first(run)
            self._verify(bind)
            self._launch_again(run)
            self._test_invariance()
            if isinstance(self.device, CudaDevice):
                self._capture(run, self.device)
        except UnfitError as unfit:
            # A failed capture leaves torch's allocator in doubt, a fault destroys the context: both end the process.
            doubtful = unfit.status in {Status.SYNCHRONISES, Status.CRASHED} or not is_alive(self.device)
            self._result = replace(self._result, status=unfit.status, reason=unfit.reason, poisoned=doubtful)
            self.workspaces.forget_inputs()  # it may have changed the pristine inputs
            self.pairs.forget()
        return replace(self._result, gates=tuple(self._gates), notes=(*self._result.notes, *threads.notes()))

    @property
    def _timed(self) -> str:
        return self.workspaces.kinds(self.case.workload)[0]

    def _step(self, name: str, *, factor: int = 1) -> None:
        self.channel.send(StepBegun(self.case.id, name, self.task.step_limit_s * factor))

    def _check_requirements(self) -> None:
        if unfit := self._entry.unfit(self.task.device, self.case.workload):
            raise UnfitError(*unfit)

    def _load(self) -> Binder:
        if isinstance(self._entry.kernel, TorchKernel):
            self._step(IMPORT_STEP, factor=IMPORT_STEPS)
            with self._unbroken():
                load_file(self._entry.source)
        self._step("load", factor=BUILD_STEPS)
        with self._unbroken():
            return load(self._entry, self.case.variant, self.case.workload)

    def _bind(self, bind: Binder) -> Launcher:
        self._step("bind", factor=BUILD_STEPS)
        with self._guarded():  # a workload may be larger than the memory
            workspace = self.workspaces.workspace(self.case.workload, self._timed)
        with self._unbroken():
            return bind(workspace)

    @contextmanager
    def _unbroken(self) -> Iterator[None]:
        try:
            yield
        except BuildError as error:
            raise UnfitError(Status.BUILD_FAILED, error.message) from error
        except Exception as error:
            raise UnfitError(Status.BROKEN, tell_raised(error, self._entry.folder)) from error

    def _launch_first(self, run: Launcher) -> None:
        compiles = isinstance(self._entry.kernel, TorchKernel)
        self._step("first launch", factor=BUILD_STEPS if compiles else 1)
        with self._guarded():
            run()
            self.device.synchronize()

    def _verify(self, bind: Binder) -> None:
        scenarios = self.task.scenarios.get(self.case.id, self.workspaces.kinds(self.case.workload))
        for scenario in scenarios if not self._entry.kernel.floor else scenarios[:1]:
            self._step(f"verify {scenario}", factor=2)
            with self._guarded():
                workspace = self.workspaces.workspace(self.case.workload, scenario)
                on_outputs = self._keep_contest_error if scenario == workspace.op.scenarios[0] else None
                gates = self._gate(bind(workspace), workspace, scenario, on_outputs)
            self._judge(gates)
        if self._entry.kernel.strided:
            self._step("verify strided", factor=2)
            workspace, device = self.workspaces.workspace(self.case.workload, scenarios[0]), self.device
            with self._guarded(), self._expected(scenarios[0]) as consult:
                gates = verify_strided(self._entry.kernel, bind, workspace, consult, scenarios[0], device.synchronize)
            self._judge(gates)

    def _gate(
        self, run: Launcher, workspace: Workspace, scenario: str, on_outputs: OnOutputs | None = None
    ) -> tuple[GateResult, ...]:
        kernel, poisoned, synchronize = self._entry.kernel, self._on_poison(run), self.device.synchronize
        with self._expected(scenario) as consult:
            return verify_kernel(kernel, poisoned, workspace, consult, scenario, synchronize, on_outputs)

    def _keep_contest_error(self, outputs: Mapping[str, torch.Tensor], expected: Oracle) -> None:
        self._result = replace(self._result, contest_error=contest_error(outputs, expected))

    @contextmanager
    def _expected(self, scenario: str) -> Iterator[Callable[[], Oracle]]:
        """Provides the oracle for a kind of inputs, only while no code of the kernel runs."""
        try:
            yield partial(self.workspaces.expected, self.case.workload, scenario)
        finally:
            self._hide_expected()

    def _hide_expected(self) -> None:
        """Drops the oracle's outputs, which a kernel called through Python could find among Python's objects."""
        if isinstance(self._entry.kernel, TorchKernel):
            self.workspaces.forget_expected()

    def _on_poison(self, run: Launcher) -> Launcher:
        """The launch with the GPU's shared memory poisoned just before it, which erases an earlier launch's."""

        def poison_and_run() -> tuple[torch.Tensor, ...]:
            self.poison_shared()
            return run()

        return poison_and_run

    def _launch_again(self, run: Launcher) -> None:
        self._step(f"{LAUNCHES} launches")
        kernel, workspace = self._entry.kernel, self.workspaces.workspace(self.case.workload, self._timed)
        with self._guarded():
            warm_us = self.device.time_us(run, LAUNCHES)
            # A kernel may be right only once, as one that leaves a counter behind.
            gates, note, poisoned = self._gate(run, workspace, self._timed), "", self._on_poison(run)
            if not kernel.floor:
                note = compare_launches(poisoned, workspace, self.device.synchronize, kernel.in_place)
        self._result = replace(self._result, warm_us=warm_us, notes=(note,) if note else ())
        for gate in gates:
            if not gate.passed:
                raise UnfitError(gate.status, f"right at first, wrong after {LAUNCHES} launches: {gate.reason}")

    def _test_invariance(self) -> None:
        """Tests what the kernel claims, or all kinds if the task says so; a claim that fails is a failed gate."""
        shared = self.case, self.workspaces, self.pairs, self.task.device
        for name, test in InvarianceTest(*shared, self._launch_times, self._functions_of_python).tests():
            self._step(name, factor=BUILD_STEPS)  # other workloads may need other builds
            with self._guarded():
                self._result = replace(self._result, invariance=(*self._result.invariance, test()))
        self._judge(tuple(claim_gates(self._result.invariance, self._timed)))

    def _launch_times(
        self, entry: CatalogEntry, variant: Variant, workspace: Workspace, times: int
    ) -> Iterator[tuple[torch.Tensor, ...]]:
        run = self._on_poison(load(entry, variant, workspace.workload)(workspace))
        for _ in range(times):
            yield launch_once(run, workspace, self.device.synchronize, entry.kernel.in_place)

    def _functions_of_python(self, entry: CatalogEntry, variant: Variant, workspace: Workspace) -> tuple[str, ...]:
        if not (isinstance(entry.kernel, TorchKernel) and isinstance(self.device, CudaDevice)):
            return ()
        with suppress(Exception):  # its own step reports what cannot be captured
            return capture(load(entry, variant, workspace.workload)(workspace), strict=False).launched
        return ()

    def _capture(self, run: Launcher, device: CudaDevice) -> None:
        """Captures first leniently, so that work on other streams is found and named, then strictly."""
        self._step("capture")
        captured = self._captured(run, device, strict=False)
        self._result = replace(self._result, launches=captured.kernels, launched=captured.launched)
        if not captured.operations:
            raise UnfitError(Status.WRONG_STREAM, "launched nothing on the stream it was given; use the current stream")
        self._step("replay")
        workspace = self.workspaces.workspace(self.case.workload, self._timed)
        with self._guarded():
            workspace.reset(captured.outputs, self._entry.kernel.in_place)
            self.poison_shared()
            captured.graph.replay()
            device.synchronize()
        self._check_replay(captured.outputs)
        self._step("strict capture")
        self._captured(run, device, strict=True)

    def _captured(self, run: Launcher, device: CudaDevice, *, strict: bool) -> CapturedCall:
        try:
            return capture(run, strict=strict)
        except Exception as error:
            status = Status.SYNCHRONISES if is_alive(device) else Status.CRASHED
            reason = tell_raised(error, self._entry.folder)
            raise UnfitError(status, f"cannot be captured into a CUDA graph: {reason}") from error

    def _check_replay(self, outputs: tuple[torch.Tensor, ...]) -> None:
        if self._entry.kernel.floor:
            return
        scenario = self._timed
        with self._expected(scenario) as consult:
            op = self.workspaces.workspace(self.case.workload, scenario).op
            gates = check_outputs(op, outputs, consult(), scenario)
        if not all(gate.passed for gate in gates):
            reason = "part of its work does not go to the stream it was given: a captured launch gives other outputs"
            raise UnfitError(Status.WRONG_STREAM, reason)

    def _judge(self, gates: tuple[GateResult, ...]) -> None:
        self._gates.extend(gates)
        for gate in gates:
            if not gate.passed:
                raise UnfitError(gate.status, gate.reason)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            status = Status.FAILED if is_alive(self.device) else Status.CRASHED
            raise UnfitError(status, tell_raised(error, self._entry.folder)) from error
