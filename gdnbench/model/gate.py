"""What one correctness gate found."""

from __future__ import annotations

from dataclasses import dataclass

from gdnbench.model.status import Status


@dataclass(frozen=True)
class GateResult:
    """What one gate found on one set of inputs.

    Attributes:
        gate: its name, `output within 1 ulp + 1e-05`.
        scenario: the kind of inputs, `saturated-gates`.
        worst: the largest error, in the unit of `limit`.
        limit: the largest error that passes.
        where: index of the worst element, as text; empty where no element stands out.
        status: OK, or what a failure here makes of the case.
    """

    gate: str
    scenario: str
    worst: float
    limit: float
    where: str
    status: Status

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status(self.status))

    @property
    def passed(self) -> bool:
        """Whether the gate is passed."""
        return self.status is Status.OK

    @property
    def reason(self) -> str:
        """Why it failed, in a line."""
        if self.limit == 0:
            error = f"fails for {self.worst:.0f} elements, first at {self.where}"
        else:
            error = f"error {self.worst:.3g}, at most {self.limit:g} passes, worst at {self.where}"
        return f"{self.gate}: {error} ({self.scenario} inputs)"
