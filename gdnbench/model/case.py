"""What one run measures: variants of kernels at workloads, each in a role."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdnbench.model.params import Params
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload, WorkloadSpec


@dataclass(frozen=True)
class Variant:
    """A kernel with its params fixed.

    Attributes:
        kernel: the kernel's name.
        label: what a table calls it and `--kernel` accepts: `decode-v4`, `decode-v4b`, `decode-triton:BV=16`.
        preset: the preset's name, empty for other params.
        params: every param's value.
    """

    kernel: str
    label: str
    preset: str = ""
    params: Params = field(default_factory=Params)

    @property
    def is_picked(self) -> bool:
        """Whether a dispatcher picked it: it then goes by the dispatcher's name, to which no param can be added."""
        return ":" not in self.label and self.label not in {self.kernel, self.preset}

    @property
    def in_full(self) -> str:
        """The kernel and all of its params: `decode-v4 WARPS=8`."""
        return f"{self.kernel} {self.params}".rstrip()


def key_of(case_id: str) -> str:
    """The key of a case's workload, from the case's id."""
    return case_id.rpartition("/")[2]


@dataclass(frozen=True)
class Case:
    """A variant at a workload, with its role in the run."""

    variant: Variant
    workload: Workload
    role: Role = Role.KERNEL

    @property
    def id(self) -> str:
        """Unique within a run; NVBench's benchmark names and every file of the run use it."""
        return f"{self.label}/{self.workload.key}"

    @property
    def label(self) -> str:
        """The variant's label; the control's says that it is the baseline again."""
        return f"{self.variant.label}@again" if self.role is Role.CONTROL else self.variant.label

    @property
    def is_bare_floor(self) -> bool:
        """Whether it is a floor by its bare name: its params are those of whichever form was the fastest there."""
        return self.role is Role.FLOOR and self.variant.label == self.variant.kernel

    def is_point_of(self, swept: Collection[str]) -> bool:
        """Whether it is a point of a sweep over these kernels, and not what is measured beside the points."""
        return self.variant.kernel in swept and self.role in {Role.KERNEL, Role.FLOOR, Role.ABLATION}

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "kernel": self.variant.kernel,
            "label": self.variant.label,
            "preset": self.variant.preset,
            "params": dict(self.variant.params),
            **self.workload.document,
            "role": self.role.value,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], spec: WorkloadSpec) -> Case:
        """The inverse of `to_dict`.

        Args:
            document: the case.
            spec: the axes of its op.

        Raises:
            ShapeError: if its workload is none of these axes.
        """
        variant = Variant(
            document["kernel"], document["label"], preset=document["preset"], params=Params(document["params"])
        )
        return cls(variant, spec.stored_case(document), Role(document["role"]))
