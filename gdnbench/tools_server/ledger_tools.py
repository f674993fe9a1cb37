"""The tools around an edit, which need no GPU: lint before a run, try before a measurement, ledger after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from gdnbench.errors import UsageError
from gdnbench.tools_server.digests.entries import digest_entries, digest_entry
from gdnbench.tools_server.digests.findings import digest_findings
from gdnbench.tools_server.result import Digest
from gdnbench.tools_server.tool import Kernels, Offset, Op, Tool, call_of
from gdnbench.tools_server.words import Words, check_ledger, check_run, check_text, split_names

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
        words = Words(self.name).option("kernel", self.kernel).option("op", self.op).option("after", self.after)
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
