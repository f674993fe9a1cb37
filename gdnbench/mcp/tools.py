"""The tools of the server, in the order in which a client lists them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gdnbench.errors import UsageError
from gdnbench.mcp.digests import (
    digest_comparison,
    digest_counters,
    digest_explained,
    digest_findings,
    digest_inspected,
    digest_kernels,
    digest_ledger,
    digest_verified,
)
from gdnbench.mcp.result import Digest
from gdnbench.mcp.run_digests import RowFilter, call_of, digest_run
from gdnbench.mcp.tool import (
    Call,
    Options,
    Parameter,
    Tool,
    Values,
    check_kernel_or_revision,
    check_label,
    check_ledger,
    check_name,
    check_path,
    check_run,
    check_source,
    check_text,
    split_names,
)

_KERNELS_ABOUT = (
    "Kernels: names or globs from the tool `list`, separated by commas, params after colons: "
    "'decode-v4,decode-triton:BV=16' or 'decode-v1*'."
)
KERNELS = Parameter("kernel", "kernels", split_names, _KERNELS_ABOUT, required=True)
ANY_KERNELS = Parameter("kernel", "kernels", split_names, _KERNELS_ABOUT)
KERNEL = Parameter("kernel", "kernels", split_names, required=True)
OP = Parameter("op")
SHAPE = Parameter("shape")
SUITE = Parameter("suite")
GPU = Parameter("gpu", default="auto")
GPU_HERE = Parameter("gpu", default="auto", about="auto, cpu, an index or a model, of this machine alone.")
ON = Parameter("on")
SEED = Parameter("seed")
AGAINST = Parameter("against", "baseline")
BUDGET = Parameter("budget")
LABEL = Parameter("label", check=check_label)
DRY_RUN = Parameter("dry_run")
YES = Parameter("yes", about="Compile even where that takes minutes: what --yes says.")
ARCH = Parameter("arch")
OFFSET = Parameter(
    "offset", kind=int, is_own=True, about="How many rows to leave out: where an earlier result was cut."
)


def _digest_stored(document: Any, _call: Call) -> Digest:
    return digest_run(document, RowFilter())


def _digest_shown(document: Any, call: Call) -> Digest:
    values = call.values
    return digest_run(document, RowFilter(tuple(split_names(values["kernel"], "kernel")), values["shape"], call.offset))


def _digest_score(document: Any, _call: Call) -> Digest:
    return Digest({name: value for name, value in document.items() if name not in {"exit_code", "means"}})


def _digest_inspected(document: Any, call: Call) -> Digest:
    if call.values["code"]:  # lines of text
        return Digest({"code": document.splitlines()}, "code", call.offset, call.more)
    return digest_inspected(document, call.offset, call.more)


def _digest_ledger(document: Any, call: Call) -> Digest:
    more = call_of("ledger", entry=call.values["entry"], offset="{offset}")  # a run would close it again
    return digest_ledger(document, call.offset, more)


def _prepare_inspect(values: Values, options: Options) -> None:
    if values["code"]:
        del options["json"]
        options |= {"sass": True, "for_model": True}


def _prepare_ncu(values: Values, options: Options) -> None:
    if values["against"]:
        check = check_path if values["reports"] else check_name
        options["diff"] = check(values["against"], "against")
    if values["reports"]:
        options["kernels"] = [check_path(path, "reports") for path in values["reports"]]
        options["stored"] = True
        for name in ("gpu", "on"):
            options.pop(name, None)


def _prepare_show(values: Values, _options: Options) -> None:
    if not values["run"] and not values["join"]:  # the newest
        check_run("", "run")


def _prepare_ledger(values: Values, options: Options) -> None:
    check_ledger()
    entry = [str(values["entry"])] if values["entry"] else []
    if values["run"]:
        if not entry:
            raise UsageError("run: it closes an entry, and none is named", "as in entry=3")
        options["words"] = ["close", *entry, check_run(values["run"], "run")]
    else:
        options["words"] = entry


TOOLS = (
    Tool(
        "list",
        """List the kernels: name, op, language, idea, params with their values, last known kernel time.
Begin here. A kernel whose folder does not load is listed as broken, with the reason.""",
        (ANY_KERNELS, OP, OFFSET),
        lambda document, call: digest_kernels(document, call.offset, call.more),
    ),
    Tool(
        "lint",
        """Read kernels' sources for known mistakes: missing masks, overflowing offsets, missed barriers. Runs nothing.
Gives file, line, rule, what is wrong and the remedy of each finding; none is no proof that a kernel is right.""",
        (KERNELS, OP, Parameter("select"), Parameter("ignore"), OFFSET),
        lambda document, call: digest_findings(document, call.offset, call.more),
        meanings={0: "no findings", 1: "there are findings"},
    ),
    Tool(
        "verify",
        """Check kernels against a float64 oracle, without timing them: are the numbers right?
Needs no GPU: CUDA and Triton kernels are interpreted without one, which takes longer. Gives each kernel's status at \
each workload, and of a gate that failed where, what was computed and what it should have been.""",
        (KERNELS, OP, SHAPE, GPU, ON, SEED, Parameter("sanitize")),
        lambda document, _call: digest_verified(document),
        measures=True,
    ),
    Tool(
        "inspect",
        """Show what the compiler made of kernels, for any architecture: registers, spills, shared memory, loads.
Needs no GPU. `dependent_loads` counts trips to memory in a row: each costs a latency. With `against`, what changed; \
with `code`, the machine code of one kernel, told by blocks: loads, stores, waits, branches; arithmetic summed up.""",
        (
            KERNELS,
            ARCH,
            Parameter("against", "diff", check_kernel_or_revision),
            Parameter("code", kind=bool, is_own=True, about="The machine code instead; name one kernel and one arch."),
            OP,
            SHAPE,
            OFFSET,
        ),
        _digest_inspected,
        prepare=_prepare_inspect,
    ),
    Tool(
        "score",
        """Build, check and measure one kernel against another until the verdict is clear: faster, slower, same or \
unclear.
The verdict to work by after each change, in seconds; nothing is stored. A kernel that is wrong is not timed.""",
        (KERNEL, Parameter("against"), OP, SHAPE, SUITE, GPU_HERE, BUDGET),
        _digest_score,
        measures=True,
        meanings={
            0: "faster: the whole interval lies beyond the margin",
            1: "slower: the whole interval lies beyond the margin",
            9: "same: any difference is smaller than the margin",
            4: "unclear: the time was up, or the difference lies on the margin's edge",
            3: "wrong: it was not timed, or its times do not count",
            6: "it does not build, or its declaration does not load",
            8: "it crashed or took too long, or what it is compared with has no time",
            5: "it cannot run on this machine",
        },
    ),
    Tool(
        "run",
        """Measure kernels side by side, interleaved, at several workloads, and keep the run; minutes on a GPU.
Each kernel is checked first; one that is wrong gets a status and no time. Gives time, speedup over the baseline and \
verdict of each case with their intervals, and the run's id for the tool `show`.""",
        (
            *(KERNELS, OP, SHAPE, SUITE, AGAINST, GPU, ON, Parameter("rounds", most=100_000)),
            *(Parameter("samples", most=100_000), Parameter("quick"), SEED, LABEL, DRY_RUN, YES),
        ),
        _digest_stored,
        measures=True,
    ),
    Tool(
        "sweep",
        "Race every combination of a kernel's params, and say which are best at each workload; a minute by default.",
        (
            KERNELS,
            Parameter(
                "param",
                about="Params to vary, with the values to try or without for all: ['BV=4,8,16', 'WARPS'].",
                is_list=True,
                most=200,
            ),
            *(OP, SHAPE, AGAINST, BUDGET, GPU, ON, SEED, LABEL, DRY_RUN, YES),
        ),
        _digest_stored,
        measures=True,
    ),
    Tool(
        "ncu",
        """Read hardware counters of kernels with Nsight Compute, or from reports that are stored already.
Needs a GPU unless `reports` is given. The tool `explain` reads what this stores, and says what it means.""",
        (
            ANY_KERNELS,
            Parameter(
                "reports",
                about="Instead of kernels: stored reports in profiles/ncu, .csv or .ncu-rep.",
                is_own=True,
                is_list=True,
            ),
            Parameter(
                "against",
                about="Show what moved: from kernel to this kernel, from the report to this.",
                is_own=True,
            ),
            *(OP, SHAPE, GPU, ON, OFFSET),
        ),
        lambda document, call: digest_counters(document, call.offset),
        measures=True,
        prepare=_prepare_ncu,
    ),
    Tool(
        "explain",
        """Say what takes a kernel's time, at most three causes in order, with evidence and the next experiment.
Needs no GPU: it reads the newest profile of the tool `ncu`, the last run and the compiled code, what there is \
of them.""",
        (
            KERNEL,
            OP,
            SHAPE,
            Parameter("gpu"),
            Parameter("report", "file", check_path, "A report of ncu's to read, in profiles/ncu."),
        ),
        lambda document, _call: digest_explained(document),
    ),
    Tool(
        "compare",
        """Set stored runs side by side, case by case: ratios with intervals, and verdicts.
The ratio is the time of the first source over that of the other: above 1, the other is faster.""",
        (
            Parameter(
                "sources",
                check=check_source,
                about="Runs by id, label or GPU (the newest), published/NAME, or git:REV; the first is compared with.",
                is_list=True,
                required=True,
            ),
            *(Parameter("filter", "shown"), Parameter("rows", "row"), Parameter("cols", "col")),
            Parameter("fail_on", about="'slower:1%': a gate, whose exit code is 1 where one is slower."),
            OFFSET,
        ),
        lambda document, call: digest_comparison(document, call.offset),
    ),
    Tool(
        "show",
        """Read a stored run or sweep again, the newest by default; several runs of one op and GPU model are joined.
`kernel` and `shape` narrow what is shown, and `offset` goes on where a result was cut.""",
        (
            Parameter("run", "runs", check_run),
            Parameter("join", "runs", check_run, "Further runs, to be joined with it.", is_list=True),
            Parameter("kernel", about="Only these: names or globs, separated by commas.", is_own=True),
            Parameter("shape", about="Only these workloads, by axis: 'B=1,8 HQ=4'.", is_own=True),
            SUITE,
            OFFSET,
        ),
        _digest_shown,
        prepare=_prepare_show,
    ),
    Tool(
        "try",
        """Write an experiment down before it is measured: why it should be so, and which numbers are expected.
Keeps the kernel's sources as they are now. When it is edited and measured by the tool `run`, close the entry with \
the tool `ledger`. What an entry refuted is not tried again without `again`.""",
        (
            Parameter("hypothesis", check=check_text, required=True),
            Parameter("kernel", required=True),
            Parameter("expect", check=check_text, is_list=True, is_filled=True, required=True),
            Parameter("stop", check=check_text),
            *(Parameter("after"), Parameter("gate", is_list=True), Parameter("again"), OP),
        ),
        lambda document, _call: digest_ledger(document, 0, ""),
        verb="ledger add",
        writes=True,
        prepare=lambda _values, _options: check_ledger(),
    ),
    Tool(
        "ledger",
        """List the experiments that were written down, read one with what it changed in the sources, or close one by \
a run.
Look here before an idea is tried. With `run`, an entry is closed: each expectation is confirmed or refuted where the \
run's whole interval lies on one side of its bound, and undecided otherwise.""",
        (
            Parameter(
                "entry", kind=int, is_own=True, about="The number of the entry to read or close; 0 for a list of all."
            ),
            Parameter("run", is_own=True, about="Closes the entry: the run that measured it, by id, start or label."),
            Parameter("learned", check=check_text, about="With run: what was learned, in a sentence."),
            OFFSET,
        ),
        _digest_ledger,
        writes=True,
        prepare=_prepare_ledger,
    ),
    Tool(
        "ready",
        """Check whether a kernel can be sent: its source, builds, numbers and accesses, and a stored run of a whole \
suite.
Measures nothing itself. Gives each check's status and the command that shows more; it is slow without a GPU.""",
        (
            replace(KERNEL, about="One kernel, params after colons."),
            *(OP, SUITE, GPU_HERE),
            replace(ARCH, about="Targets that it must build for: 'sm_90,sm_100'."),
        ),
        lambda document, _call: Digest(document, "checks"),
        verb="verify",
        measures=True,
        prepare=lambda _values, options: options.update(ready=True),
    ),
)
