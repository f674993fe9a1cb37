"""The tools of the server, in the order in which a client lists them."""

from __future__ import annotations

from dataclasses import replace

from gdnbench.errors import UsageError
from gdnbench.mcp import digests
from gdnbench.mcp.tool import (
    Options,
    Parameter,
    Tool,
    Values,
    check_kernel_or_revision,
    check_ledger,
    check_name,
    check_path,
    check_run,
    check_source,
    check_text,
    split_names,
)

_ONE_KERNEL = Parameter("kernel", "kernels", split_names, "One kernel, params after colons.", required=True)
_GPU_HERE = Parameter("gpu", default="auto", about="auto, cpu, an index or a model, of this machine alone.")
_COMMON = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "kernel",
            "kernels",
            split_names,
            "Kernels: names or globs from the tool `list`, separated by commas, params after colons: "
            "'decode-v4,decode-triton:BV=16' or 'decode-v1*'.",
        ),
        Parameter("gpu", default="auto"),
        Parameter("against", "baseline"),
        Parameter("rounds", most=100_000),
        Parameter("samples", most=100_000),
        Parameter("yes", about="Compile even where that takes minutes: what --yes says."),
        Parameter("offset", kind=int, about="How many rows to leave out: where an earlier result was cut."),
    )
}


def _offer(*parameters: str | Parameter) -> tuple[Parameter, ...]:
    """Returns parameters of a verb by name, `!` behind those that are required, and others as they are."""
    offered: list[Parameter] = []
    for each in parameters:
        for name in each.split() if isinstance(each, str) else ():
            plain = name.rstrip("!")
            offered.append(replace(_COMMON.get(plain, Parameter(plain)), required=name.endswith("!")))
        offered += [] if isinstance(each, str) else [each]
    return tuple(offered)


def _prepare_inspect(values: Values, options: Options) -> None:
    if values["code"]:
        del options["json"]
        options["sass"] = True


def _prepare_ncu(values: Values, options: Options) -> None:
    options["for_model"] = True
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
    if values["run"] or values["close"]:
        if not entry:
            raise UsageError("run: it closes an entry, and none is named", "as in entry=3")
        options["words"] = ["close", *entry, *([check_run(values["run"], "run")] if values["run"] else [])]
    else:
        options["words"] = entry


TOOLS = (
    Tool(
        "list",
        """List the kernels: name, op, language, idea, params with their values, last known kernel time.
Begin here. A kernel whose folder does not load is listed as broken, with the reason.""",
        _offer("kernel op library offset"),
        digests.digest_kernels,
    ),
    Tool(
        "verify",
        """Check kernels against a float64 oracle, without timing them: are the numbers right?
Needs no GPU: CUDA and Triton kernels are interpreted without one, which takes longer. Gives each kernel's status at \
each workload, and of a gate that failed where, what was computed and what it should have been. With `length`, errors \
along sequences instead. With `sequences` the kernels are a family, one each for prefill, decode and verify, that a \
program of events calls as an engine does.""",
        _offer("kernel! op shape profile gpu on seed sanitize invariance length sequences"),
        digests.digest_verified,
        measures=True,
    ),
    Tool(
        "inspect",
        """Show what the compiler made of kernels, for any architecture: registers, spills, shared memory, loads.
Needs no GPU. `dependent_loads` counts trips to memory in a row: each costs a latency. With `against`, what changed; \
with `code`, the machine code of one kernel, line by line.""",
        _offer(
            "kernel! arch",
            Parameter("against", "diff", check_kernel_or_revision),
            Parameter("code", kind=bool, about="The machine code instead; name one kernel and one arch."),
            "op shape offset",
        ),
        digests.digest_inspected,
        prepare=_prepare_inspect,
    ),
    Tool(
        "score",
        """Build, check and measure one kernel against another until the verdict is clear: faster, slower, same or \
unclear.
The verdict to work by after each change, in seconds; nothing is stored. A kernel that is wrong is not timed.""",
        _offer(_ONE_KERNEL, Parameter("against"), "op shape profile suite", _GPU_HERE, "budget"),
        digests.passed_on("workloads"),
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
        _offer("kernel! op shape profile suite against gpu on rounds samples quick seed label dry_run yes"),
        digests.digest_run,
        measures=True,
    ),
    Tool(
        "sweep",
        "Race every combination of a kernel's params, and say which are best at each workload; a minute by default.",
        _offer(
            "kernel!",
            Parameter(
                "param",
                about="Params to vary, with the values to try or without for all: ['BV=4,8,16', 'WARPS'].",
                is_list=True,
                most=200,
            ),
            "op shape profile against budget gpu on seed label dry_run yes",
        ),
        digests.digest_run,
        measures=True,
    ),
    Tool(
        "ncu",
        """Read hardware counters of kernels with Nsight Compute, or from reports that are stored already.
Needs a GPU unless `reports` is given. The tool `explain` reads what this stores, and says what it means.""",
        _offer(
            "kernel",
            Parameter(
                "reports",
                kind=str,
                about="Instead of kernels: stored reports in profiles/ncu, .csv or .ncu-rep.",
                is_list=True,
            ),
            Parameter("against", kind=str, about="Show what moved: from kernel or report to this one."),
            "op shape profile gpu on offset",
        ),
        digests.passed_on("functions"),
        measures=True,
        prepare=_prepare_ncu,
    ),
    Tool(
        "explain",
        """Say what takes a kernel's time, at most three causes in order, with evidence and the next experiment.
Needs no GPU: it reads the newest profile of the tool `ncu`, the last run and the compiled code, what there is \
of them.""",
        _offer(
            _ONE_KERNEL,
            "op shape",
            Parameter("gpu"),
            Parameter("report", "file", check_path, "A report of ncu's to read, in profiles/ncu."),
        ),
        digests.digest_explained,
    ),
    Tool(
        "compare",
        """Set stored runs side by side, case by case: ratios with intervals, and verdicts.
The ratio is the time of the first source over that of the other: above 1, the other is faster.""",
        _offer(
            Parameter(
                "sources",
                check=check_source,
                about="Runs by id, label or GPU (the newest), or published/NAME; the first is compared with.",
                is_list=True,
                required=True,
            ),
            Parameter("filter", "shown"),
            Parameter("rows", "row"),
            Parameter("cols", "col"),
            Parameter("fail_on", about="'slower:1%': a gate, whose exit code is 1 where one is slower."),
            "offset",
        ),
        digests.digest_comparison,
    ),
    Tool(
        "show",
        """Read a stored run or sweep again, the newest by default; several runs of one op and GPU model are joined.
`kernel` and `shape` narrow what is shown, and `offset` goes on where a result was cut.""",
        _offer(
            Parameter("run", "runs", check_run),
            Parameter("join", "runs", check_run, "Further runs, to be joined with it.", is_list=True),
            Parameter("kernel", kind=str, about="Only these: names or globs, separated by commas."),
            Parameter("shape", kind=str, about="Only these workloads, by axis: 'B=1,8 HQ=4'."),
            "suite offset",
        ),
        digests.digest_run,
        prepare=_prepare_show,
    ),
    Tool(
        "try",
        """Write an experiment down before it is measured: why it should be so, and which numbers are expected.
Keeps the kernel's sources as they are now. When it is edited and measured by the tool `run`, close the entry with \
the tool `ledger`. What an entry refuted is not tried again without `again`.""",
        _offer(
            Parameter("hypothesis", check=check_text, required=True),
            Parameter("kernel", required=True),
            Parameter("expect", check=check_text, is_list=True, is_filled=True, required=True),
            Parameter("stop", check=check_text),
            Parameter("effort", check=check_text),
            "after",
            "again op",
        ),
        digests.digest_ledger,
        verb="ledger add",
        writes=True,
        prepare=lambda _values, _options: check_ledger(),
    ),
    Tool(
        "ledger",
        """List the experiments that were written down, read one with what it changed in the sources, or close one.
Look here before an idea is tried. With `run`, an entry is closed: each expectation is confirmed or refuted where the \
run's whole interval lies on one side of its bound, and undecided otherwise. Builds and errors are measured then, \
phases and counters read from stored profiles; with `close` without a run.""",
        _offer(
            Parameter("entry", kind=int, about="The number of the entry to read or close; 0 for a list of all."),
            Parameter("run", kind=str, about="Closes the entry: the run that measured it, by id, start or label."),
            Parameter("close", kind=bool, about="Closes the entry without a run; times stay undecided."),
            Parameter("learned", check=check_text, about="With run or close: what was learned, in a sentence."),
            "offset",
        ),
        digests.digest_ledger,
        writes=True,
        prepare=_prepare_ledger,
    ),
    Tool(
        "ready",
        """Check whether a kernel can be sent: its source, builds, numbers and accesses, and a stored run of a whole \
suite.
Measures nothing itself. Gives each check's status and the command that shows more; it is slow without a GPU.""",
        _offer(_ONE_KERNEL, "op suite", _GPU_HERE),
        digests.passed_on("checks"),
        verb="verify",
        measures=True,
        prepare=lambda _values, options: options.update(ready=True),
    ),
)
