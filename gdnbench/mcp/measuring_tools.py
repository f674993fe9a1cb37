"""The tools that measure or check: verify, score, run, sweep, ncu, ready. Their calls run one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from gdnbench.mcp.digests.measuring import digest_counters, digest_verified
from gdnbench.mcp.digests.runs import RowFilter, digest_run
from gdnbench.mcp.tool import (
    Against,
    Budget,
    DryRun,
    Gpu,
    Kernels,
    Label,
    Offset,
    On,
    Op,
    Rounds,
    Seed,
    Shape,
    Suite,
    Tool,
    Words,
    Yes,
    check_path,
    split_names,
)
from gdnbench.render.digest import Digest


class Verify(Tool, frozen=True):
    """Check kernels against a float64 oracle, without timing them: are the numbers right?

    Needs no GPU: CUDA and Triton kernels are interpreted without one, which takes longer. Gives each kernel's status at
    each workload, and of a gate that failed where, what was computed and what it should have been.
    """

    name: ClassVar[str] = "verify"
    measures: ClassVar[bool] = True

    kernel: Kernels
    op: Op = ""
    shape: Shape = ""
    gpu: Gpu = "auto"
    on: On = ""
    seed: Seed = 0
    sanitize: Annotated[bool, Meta(description="Also under compute-sanitizer: races, accesses out of bounds.")] = False

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("shape", self.shape).option("gpu", self.gpu)
        words.option("on", self.on).option("seed", self.seed).flag("sanitize", wanted=self.sanitize)
        return words.arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_verified(document)


class ScoreTool(Tool, frozen=True):
    """Build, check and measure one kernel against another until the verdict is clear: faster, slower, same or unclear.

    The verdict to work by after each change, in seconds; nothing is stored. A kernel that is wrong is not timed.
    """

    name: ClassVar[str] = "score"
    measures: ClassVar[bool] = True
    meanings: ClassVar[Mapping[int, str]] = {
        0: "faster: the whole interval lies beyond the margin",
        1: "slower: the whole interval lies beyond the margin",
        9: "same: any difference is smaller than the margin",
        4: "unclear: the time was up, or the difference lies on the margin's edge",
        3: "wrong: it was not timed, or its times do not count",
        6: "it does not build, or its declaration does not load",
        8: "it crashed or took too long, or what it is compared with has no time",
        5: "it cannot run on this machine",
    }

    kernel: Annotated[str, Meta(description="One kernel, params after colons: 'decode-mine' or 'decode-v4:WARPS=4'.")]
    against: Against = ""
    op: Op = ""
    shape: Shape = ""
    suite: Suite = ""
    gpu: Annotated[str, Meta(description="auto, cpu, an index or a model, of this machine alone.")] = "auto"
    budget: Budget = ""

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("against", self.against).option("op", self.op).option("shape", self.shape)
        words.option("suite", self.suite).option("gpu", self.gpu).option("budget", self.budget)
        return words.arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`: the verb's JSON is small by itself."""
        return Digest({name: value for name, value in document.items() if name not in {"exit_code", "means"}})


class Run(Tool, frozen=True):
    """Measure kernels side by side, interleaved, at several workloads, and keep the run; minutes on a GPU.

    Each kernel is checked first; one that is wrong gets a status and no time. Gives time, speedup over the baseline and
    verdict of each case with their intervals, and the run's id for the tool `show`.
    """

    name: ClassVar[str] = "run"
    measures: ClassVar[bool] = True

    kernel: Kernels
    op: Op = ""
    shape: Shape = ""
    suite: Suite = ""
    against: Against = ""
    gpu: Gpu = "auto"
    on: On = ""
    rounds: Rounds = 0
    samples: Annotated[int, Meta(ge=0, le=100_000, description="Samples per round; 0 for the default.")] = 0
    quick: Annotated[bool, Meta(description="A first look: 7 rounds, wide intervals.")] = False
    seed: Seed = 0
    label: Label = ""
    dry_run: DryRun = False
    yes: Yes = False

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("shape", self.shape).option("suite", self.suite)
        words.option("baseline", self.against).option("gpu", self.gpu).option("on", self.on)
        words.option("rounds", self.rounds).option("samples", self.samples).option("seed", self.seed)
        words.flag("quick", wanted=self.quick).flag("dry-run", wanted=self.dry_run).flag("yes", wanted=self.yes)
        return words.label(self.label).arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_run(document, RowFilter())


class SweepTool(Tool, frozen=True):
    """Race every combination of a kernel's params, and say which are best at each workload; a minute by default."""

    name: ClassVar[str] = "sweep"
    measures: ClassVar[bool] = True

    kernel: Kernels
    param: Annotated[
        list[Annotated[str, Meta(max_length=200)]],
        Meta(description="Params to vary, with the values to try or without for all: ['BV=4,8,16', 'WARPS']."),
    ] = []  # noqa: RUF012 - msgspec copies it
    op: Op = ""
    shape: Shape = ""
    against: Against = ""
    budget: Budget = ""
    gpu: Gpu = "auto"
    on: On = ""
    seed: Seed = 0
    label: Label = ""
    dry_run: DryRun = False
    yes: Yes = False

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("shape", self.shape).option("baseline", self.against)
        for param in self.param:
            words.option("param", param)
        words.option("budget", self.budget).option("gpu", self.gpu).option("on", self.on).option("seed", self.seed)
        words.flag("dry-run", wanted=self.dry_run).flag("yes", wanted=self.yes).label(self.label)
        return words.arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_run(document, RowFilter())


class Ready(Tool, frozen=True):
    """Check whether a kernel can be sent: its source, builds, numbers and accesses, and a stored run of a whole suite.

    Measures nothing itself. Gives each check's status and the command that shows more; it is slow without a GPU.
    """

    name: ClassVar[str] = "ready"
    measures: ClassVar[bool] = True

    kernel: Annotated[str, Meta(description="One kernel, params after colons.")]
    op: Op = ""
    suite: Suite = ""
    gpu: Annotated[str, Meta(description="auto, cpu, an index or a model, of this machine alone.")] = "auto"
    arch: Annotated[str, Meta(description="Targets that it must build for: 'sm_90,sm_100'.")] = ""

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words("verify").flag("ready").option("op", self.op).option("suite", self.suite).option("gpu", self.gpu)
        return words.option("arch", self.arch).arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`: the verb's JSON is small by itself."""
        return Digest(document, "checks")


class Ncu(Tool, frozen=True):
    """Read hardware counters of kernels with Nsight Compute, or from reports that are stored already.

    Needs a GPU unless `reports` is given. The tool `explain` reads what this stores, and says what it means.
    """

    name: ClassVar[str] = "ncu"
    measures: ClassVar[bool] = True

    kernel: Kernels = ""
    reports: Annotated[
        list[Annotated[str, Meta(max_length=500)]],
        Meta(description="Instead of kernels: stored reports in profiles/ncu, .csv or .ncu-rep."),
    ] = []  # noqa: RUF012 - msgspec copies it
    against: Annotated[
        str, Meta(description="Show what moved: from kernel to this kernel, from the report to this.")
    ] = ""
    op: Op = ""
    shape: Shape = ""
    gpu: Gpu = "auto"
    on: On = ""
    offset: Offset = 0

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("shape", self.shape)
        if not self.reports:
            words.option("diff", self.against).option("gpu", self.gpu).option("on", self.on)
            return words.arguments(split_names(self.kernel, "kernel"))
        words.flag("import").path("diff", self.against)
        return words.arguments([check_path(path, "reports") for path in self.reports])

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_counters(document, self.offset)
