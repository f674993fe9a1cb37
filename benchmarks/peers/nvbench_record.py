"""What NVBench's JSON says of two kernels: by the rule of its older compare script, and by its newer script itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gdnbench.stats.interval import Verdict

from .peers import LEGACY, ROBUST
from .rules import STATUSES, Judgement, within_noise
from .task import SEPARATOR

_MEAN, _NOISE = "nv/cold/time/gpu/mean", "nv/cold/time/gpu/stdev/relative"


class NvbenchError(ValueError):
    """A kernel has no time in NVBench's JSON."""


@dataclass(frozen=True)
class NvbenchRecord:
    """NVBench's JSON of one trial.

    Attributes:
        path: the file, beside which its samples lie.
        summaries: what it says of each kernel, by workload and name.
        skipped: why it skipped some, likewise.
    """

    path: Path
    summaries: Mapping[tuple[str, str], list[dict[str, Any]]]
    skipped: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> NvbenchRecord:
        """Reads the file.

        Raises:
            OSError: if there is none.
            ValueError: if it is not as NVBench writes it.
        """
        found, skipped = {}, {}
        try:
            for benchmark in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]:
                label, _, name = benchmark["name"].partition(SEPARATOR)
                (state,) = benchmark["states"]
                found[label, name] = state.get("summaries") or []
                if state.get("is_skipped"):
                    skipped[label, name] = state.get("skip_reason") or "no reason given"
        except (AttributeError, KeyError, TypeError) as error:
            raise NvbenchError(f"its JSON is not as NVBench writes it: {error!r}") from error
        return cls(path, found, skipped)

    def mean_us(self, label: str, name: str) -> float:
        """Mean of a kernel's samples.

        Raises:
            NvbenchError: if it has none.
        """
        mean_s = self._value(label, name, _MEAN)
        if mean_s is None:
            why = self.skipped.get((label, name), "it has no mean")
            raise NvbenchError(f"NVBench has no time of {name} at {label}: {why}")
        return mean_s * 1e6

    def judge(self, rule: str, label: str, a: str, b: str) -> Judgement:
        """What a rule says of B against A.

        Args:
            rule: `LEGACY` or `ROBUST`.
            label: the workload's.
            a: the reference.
            b: what is compared with it.

        Raises:
            NvbenchError: if one of them has no time, or there is no such script here.
        """
        a_us, b_us = self.mean_us(label, a), self.mean_us(label, b)
        if rule == LEGACY:
            return within_noise(a_us, b_us, self._value(label, a, _NOISE), self._value(label, b, _NOISE))
        if rule == ROBUST:
            return self._judge_robustly(label, a, b)
        raise NvbenchError(f"NVBench has no rule {rule}")

    def _judge_robustly(self, label: str, a: str, b: str) -> Judgement:
        """The script's own functions; run as a program it would print the same, and want packages for its colours."""
        try:
            from cuda.bench.scripts import nvbench_compare_robust as script
        except ImportError as error:
            raise NvbenchError(f"this cuda-bench has no nvbench-compare-robust: {error}") from error
        folder, path = str(self.path.parent), str(self.path)
        try:
            script.load_nvbench_compare_tooling(load_color=False)
            reference, compared = (
                script.extract_gpu_timing_data(self._summaries(label, name), folder, json_path=path) for name in (a, b)
            )
            status = script.compare_gpu_timings(reference, compared).status
            margin = float(script.get_default_thresholds().same_center_relative)
        except (AttributeError, KeyError, RuntimeError, TypeError) as error:
            raise NvbenchError(f"nvbench-compare-robust of this cuda-bench: {error!r}") from error
        return Judgement(STATUSES.get(str(status.value), Verdict.UNCLEAR), margin)

    def _summaries(self, label: str, name: str) -> list[dict[str, Any]]:
        if (label, name) not in self.summaries:
            raise NvbenchError(f"NVBench did not measure {name} at {label}")
        return self.summaries[label, name]

    def _value(self, label: str, name: str, tag: str) -> float | None:
        """A summary's number; None where there is none, or NVBench knew none."""
        for summary in self._summaries(label, name):
            if summary["tag"] == tag:
                text = next((each["value"] for each in summary["data"] if each["name"] == "value"), None)
                number = math.nan if text is None else float(text)
                return number if math.isfinite(number) else None
        return None
