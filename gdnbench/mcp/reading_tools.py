"""The tools that need no GPU: list, inspect, explain, compare, show; and lint, try, ledger around an edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from gdnbench.errors import UsageError
from gdnbench.mcp.digests.measuring import digest_entries, digest_entry, digest_findings
from gdnbench.mcp.digests.reading import digest_comparison, digest_explained, digest_inspected, digest_kernels
from gdnbench.mcp.digests.runs import RowFilter, digest_run
from gdnbench.mcp.tool import (
    Gpu,
    Kernels,
    Offset,
    Op,
    Shape,
    Suite,
    Tool,
    Words,
    call_of,
    check_ledger,
    check_newest,
    check_revision,
    check_run,
    check_source,
    check_text,
    split_names,
)
from gdnbench.render.digest import Digest


class List(Tool, frozen=True):
    """List the kernels: name, op, language, idea, params with their values, last known kernel time.

    Begin here. A kernel whose folder does not load is listed as broken, with the reason.
    """

    name: ClassVar[str] = "list"

    kernel: Kernels = ""
    op: Annotated[str, Meta(description="The kernels of this op alone: 'decode', 'prefill'.")] = ""
    offset: Offset = 0

    def words(self) -> Words:
        """As `Tool.words`."""
        return Words(self.name).option("op", self.op).arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        more = call_of(self.name, kernel=self.kernel, op=self.op, offset="{offset}")
        return digest_kernels(document, self.offset, more)


class Inspect(Tool, frozen=True):
    """Show what the compiler made of kernels, for any architecture: registers, spills, shared memory, loads.

    Needs no GPU. `dependent_loads` counts trips to memory in a row: each costs a latency. With `against`, what changed;
    with `code`, the machine code of one kernel, told by blocks: loads, stores, waits, branches; arithmetic summed up.
    """

    name: ClassVar[str] = "inspect"

    kernel: Kernels
    arch: Annotated[str, Meta(description="Targets: 'sm_90,sm_100'; those of the GPUs here by default.")] = ""
    against: Annotated[
        str, Meta(description="Another kernel to say what changed from, or git:REV for this one at that commit.")
    ] = ""
    code: Annotated[bool, Meta(description="The machine code instead; name one kernel and one arch.")] = False
    op: Op = ""
    shape: Shape = ""
    offset: Offset = 0

    def line(self) -> list[str]:
        """As `Tool.line`."""
        if self.code:
            return self.words().flag("sass").flag("for-model").line
        return super().line()

    def read(self, output: str) -> Digest:
        """As `Tool.read`; the code is lines of text."""
        if self.code:
            return Digest({"code": output.splitlines()}, "code", self.offset, self._more)
        return super().read(output)

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("shape", self.shape).option("arch", self.arch)
        if self.against.startswith("git:"):
            words.revision("diff", check_revision(self.against, "against"))
        else:
            words.option("diff", self.against)
        return words.arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_inspected(document, self.offset, self._more)

    @property
    def _more(self) -> str:
        own = {
            "kernel": self.kernel,
            "arch": self.arch,
            "against": self.against,
            "code": self.code,
            "op": self.op,
            "shape": self.shape,
        }
        return call_of(self.name, **own, offset="{offset}")


class Explain(Tool, frozen=True):
    """Say what takes a kernel's time, at most three causes in order, with evidence and the next experiment.

    Needs no GPU: it reads the newest profile of the tool `ncu`, the last run and the compiled code, what there is of
    them.
    """

    name: ClassVar[str] = "explain"

    kernel: Annotated[str, Meta(description="One kernel, params after colons.")]
    op: Op = ""
    shape: Annotated[str, Meta(description="One workload, as 'B=1'.")] = ""
    gpu: Gpu = ""
    report: Annotated[str, Meta(description="A report of ncu's to read, in profiles/ncu.")] = ""

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("shape", self.shape).option("gpu", self.gpu)
        return words.path("from", self.report).arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_explained(document)


class Compare(Tool, frozen=True):
    """Set stored runs side by side, case by case: ratios with intervals, and verdicts.

    The ratio is the time of the first source over that of the other: above 1, the other is faster.
    """

    name: ClassVar[str] = "compare"

    sources: Annotated[
        list[Annotated[str, Meta(max_length=500)]],
        Meta(
            description="Runs by id, label or GPU (the newest), published/NAME, or git:REV; the first is compared with."
        ),
    ]
    filter: Annotated[str, Meta(description="Which cases: 'kernel=decode-v4* B=1,8'.")] = ""
    rows: Annotated[str, Meta(description="What identifies a row: 'kernel,B'; 'op,shape,label,params'.")] = ""
    cols: Annotated[str, Meta(description="What varies: run, gpu, kernel, label, timer, B.")] = ""
    fail_on: Annotated[str, Meta(description="'slower:1%': a gate, whose exit code is 1 where one is slower.")] = ""
    offset: Offset = 0

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("filter", self.filter).option("rows", self.rows).option("cols", self.cols)
        words.option("fail-on", self.fail_on)
        return words.arguments([check_source(source, "sources") for source in self.sources])

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_comparison(document, self.offset)


class Show(Tool, frozen=True):
    """Read a stored run or sweep again, the newest by default; several runs of one op and GPU model are joined.

    `kernel` and `shape` narrow what is shown, and `offset` goes on where a result was cut.
    """

    name: ClassVar[str] = "show"

    run: Annotated[str, Meta(description="A run's id, its start or label, or a GPU's name for the newest there.")] = ""
    join: Annotated[
        list[Annotated[str, Meta(max_length=500)]], Meta(description="Further runs, to be joined with it.")
    ] = []  # noqa: RUF012 - msgspec copies it
    kernel: Annotated[str, Meta(description="Only these: names or globs, separated by commas.")] = ""
    shape: Annotated[str, Meta(description="Only these workloads, by axis: 'B=1,8 HQ=4'.")] = ""
    suite: Suite = ""
    offset: Offset = 0

    def words(self) -> Words:
        """As `Tool.words`."""
        named = [*filter(None, [self.run]), *self.join]
        if not named:
            check_newest()
        return Words(self.name).option("suite", self.suite).arguments([check_run(name, "run") for name in named])

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_run(document, RowFilter(tuple(split_names(self.kernel, "kernel")), self.shape, self.offset))


Line = Annotated[str, Meta(max_length=500)]


class Lint(Tool, frozen=True):
    """Read kernels' sources for known mistakes: missing masks, overflowing offsets, missed barriers. Runs nothing.

    Gives file, line, rule, what is wrong and the remedy of each finding; none is no proof that a kernel is right.
    """

    name: ClassVar[str] = "lint"
    meanings: ClassVar[Mapping[int, str]] = {0: "no findings", 1: "there are findings"}

    kernel: Kernels
    op: Op = ""
    select: Annotated[str, Meta(description="These rules alone: 'T1,C3', or 'T' for all of Triton.")] = ""
    ignore: Annotated[str, Meta(description="Rules to leave out.")] = ""
    offset: Offset = 0

    def words(self) -> Words:
        """As `Tool.words`."""
        words = Words(self.name).option("op", self.op).option("select", self.select).option("ignore", self.ignore)
        return words.arguments(split_names(self.kernel, "kernel"))

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        own = {"kernel": self.kernel, "op": self.op, "select": self.select, "ignore": self.ignore}
        return digest_findings(document, self.offset, call_of(self.name, **own, offset="{offset}"))


class Try(Tool, frozen=True):
    """Write an experiment down before it is measured: why it should be so, and which numbers are expected.

    Keeps the kernel's sources as they are now. When it is edited and measured by the tool `run`, close the entry with
    the tool `ledger`. What an entry refuted is not tried again without `again`.
    """

    name: ClassVar[str] = "try"
    writes: ClassVar[bool] = True

    hypothesis: Annotated[str, Meta(description="Why it should be so, in a sentence.")]
    kernel: Annotated[str, Meta(description="The kernel that is tried, params after colons.")]
    expect: Annotated[
        list[Line],
        Meta(description="What is expected: ['vs decode-v8 >= 1.02 at B=1', 'time <= 4.2us at B=1'].", min_length=1),
    ]
    stop: Annotated[str, Meta(description="When to give it up, in words.")] = ""
    after: Annotated[int, Meta(ge=0, description="The entry that it follows.")] = 0
    gate: Annotated[
        list[Annotated[int, Meta(ge=1)]], Meta(description="Entries that must be confirmed before this is closed.")
    ] = []  # noqa: RUF012 - msgspec copies it
    again: Annotated[bool, Meta(description="Also what an entry refuted.")] = False
    op: Op = ""

    def words(self) -> Words:
        """As `Tool.words`."""
        check_ledger()
        words = Words("ledger add").option("kernel", self.kernel).option("op", self.op).option("after", self.after)
        for bound in self.expect:
            words.text("expect", check_text(bound, "expect"))
        for number in self.gate:
            words.option("gate", number)
        words.text("stop", check_text(self.stop, "stop") if self.stop else "").flag("again", wanted=self.again)
        return words.arguments([check_text(self.hypothesis, "hypothesis")])

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        return digest_entry(document)


class Ledger(Tool, frozen=True):
    """List the experiments that were written down, read one with what it changed in the sources, or close one by a run.

    Look here before an idea is tried. With `run`, an entry is closed: each expectation is confirmed or refuted where
    the run's whole interval lies on one side of its bound, and undecided otherwise.
    """

    name: ClassVar[str] = "ledger"
    writes: ClassVar[bool] = True

    entry: Annotated[int, Meta(ge=0, description="The number of the entry to read or close; 0 for a list of all.")] = 0
    run: Annotated[str, Meta(description="Closes the entry: the run that measured it, by id, start or label.")] = ""
    learned: Annotated[str, Meta(description="With run: what was learned, in a sentence.")] = ""
    offset: Offset = 0

    def words(self) -> Words:
        """As `Tool.words`."""
        check_ledger()
        words = Words(self.name).text("learned", check_text(self.learned, "learned") if self.learned else "")
        if not self.run:
            return words.arguments([str(self.entry)] if self.entry else [])
        if not self.entry:
            raise UsageError("run: it closes an entry, and none is named", "as in entry=3")
        return words.arguments(["close", str(self.entry), check_run(self.run, "run")])

    def digest(self, document: Any) -> Digest:
        """As `Tool.digest`."""
        more = call_of(self.name, entry=self.entry, offset="{offset}")
        if "entries" in document:
            return digest_entries(document, self.offset, more)
        return digest_entry(document, self.offset, more)
