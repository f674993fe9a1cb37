"""What the op's gates make of honest and dishonest decode steps, over inputs drawn as `gdnbench verify` draws them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch import Numerics, Workspace, load_numerics
from gdnbench.model.declaration import RoundoffGate
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.verify.check import Oracle, check_outputs, consult_oracle
from gdnbench.verify.gates import roundoff_gate

from .honest import Outputs, Step, honest_outputs
from .mistakes import mistaken_outputs

EULER = 0.5772156649015329


@dataclass
class Findings:
    """Errors over limits, one of each verification, in the order drawn.

    Attributes:
        honest: by variant, output and scenario; of `output` before it is rounded to bf16, which adds no more than the
            half ulp that its gate takes off.
        refused: honest variants that failed a gate of the op, by name; there should be none.
        mistakes: by mistake and scenario, the larger of the two gates'.
    """

    honest: dict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    mistakes: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))


class Simulation:
    """Verifications of every variant and every mistake at one workload."""

    def __init__(self, workload: Workload) -> None:
        self._op, self._numerics = decode_op()
        self._workload = workload
        self.findings = Findings()

    def verify(self, seed: int) -> None:
        """All scenarios, on inputs of a seed."""
        for number, scenario in enumerate(self._op.scenarios):
            workspace = Workspace.make(
                self._op, self._numerics, self._workload, seed=seed + number, device="cpu", scenario=scenario
            )
            oracle = consult_oracle(workspace, self._numerics)
            random = torch.Generator().manual_seed(seed + number)
            step = Step.of(workspace.inputs, workspace.scalars)
            for name, outputs in honest_outputs(step, random):
                self._hold(name, outputs, oracle, scenario)
            for name, outputs in mistaken_outputs(step, random):
                self.findings.mistakes[name, scenario].append(self._worst(outputs, oracle, scenario))

    def _hold(self, name: str, outputs: Outputs, oracle: Oracle, scenario: str) -> None:
        self.findings.refused[name] += self._worst(outputs, oracle, scenario) > 1
        for gate, actual in zip(self._op.gates, outputs, strict=True):
            assert isinstance(gate, RoundoffGate)
            right, size = oracle.outputs[gate.tensor], oracle.roundoff[gate.tensor]
            found = roundoff_gate(gate, scenario, actual, right, size)
            self.findings.honest[name, gate.tensor, scenario].append(found.worst / found.limit)

    def _worst(self, outputs: Outputs, oracle: Oracle, scenario: str) -> float:
        output, state = outputs
        gates = check_outputs(self._op, (output.bfloat16(), state), oracle, scenario)
        return max(gate.worst / gate.limit if gate.limit else math.inf for gate in gates if gate.limit or gate.worst)


def decode_op() -> tuple[Op, Numerics]:
    """This repository's decode step."""
    catalog = load_catalog(default_roots()[:1])
    op = catalog.ops["decode"]
    return op, load_numerics(op, catalog.op_folders["decode"])


def log10_chance_above(limit: float, maxima: Sequence[float]) -> float:
    """The logarithm of the chance that another such maximum lies above a limit.

    Maxima of many like errors have a Gumbel distribution in the limit; it is fitted by its mean and its standard
    deviation, so that the tail is an extrapolation: exp(-(limit - location) / scale), whose logarithm does not vanish
    where the chance does.

    Raises:
        ValueError: for fewer than two maxima.
    """
    if len(maxima) < 2:
        raise ValueError("a fit needs two maxima")
    scale = float(np.std(maxima, ddof=1)) * math.sqrt(6) / math.pi
    if scale == 0:
        return -math.inf if maxima[0] < limit else 0.0
    exponent = -(limit - (float(np.mean(maxima)) - EULER * scale)) / scale
    return min(0.0, exponent * math.log10(math.e))


def log10_of_sum(logarithms: Iterable[float]) -> float:
    """The logarithm of the sum of what has these logarithms: no less than the chance that any of them happens."""
    return float(np.logaddexp.reduce(np.array(list(logarithms)) * math.log(10)) / math.log(10))
