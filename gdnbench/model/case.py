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
    """A kernel with its params fixed; `preset` is empty for params without a preset.

    `label` is its name in tables and for `--kernel`: `decode-v4`, `decode-v4b`, `decode-triton:BV=16`.
    """

    kernel: str
    label: str
    preset: str = ""
    params: Params = field(default_factory=Params)

    @property
    def is_picked(self) -> bool:
        """Whether a dispatcher picked it: its label is then the dispatcher's name, which takes no params."""
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
        """The case's id, unique within a run; NVBench's benchmark names and every file of the run use it."""
        return f"{self.label}/{self.workload.key}"

    @property
    def label(self) -> str:
        """The variant's label; the control's ends with `@again`."""
        return f"{self.variant.label}@again" if self.role is Role.CONTROL else self.variant.label

    @property
    def is_bare_floor(self) -> bool:
        """Whether the case is a floor by its bare name, whose params are those of its fastest form at the workload."""
        return self.role is Role.FLOOR and self.variant.label == self.variant.kernel

    def is_point_of(self, swept: Collection[str]) -> bool:
        """Whether the case is a point of a sweep over these kernels."""
        return self.variant.kernel in swept and self.role in {Role.KERNEL, Role.FLOOR, Role.ABLATION}

    def to_dict(self) -> dict[str, Any]:
        """Returns a JSON document."""
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
        """The inverse of `to_dict`; ShapeError if the workload does not fit `spec`, the axes of its op."""
        variant = Variant(
            document["kernel"], document["label"], preset=document["preset"], params=Params(document["params"])
        )
        return cls(variant, spec.stored_case(document), Role(document["role"]))
