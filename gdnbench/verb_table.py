"""The verbs of the command line: one row each, with what other parts of the package need to know of it."""

from __future__ import annotations

from typing import NamedTuple


class VerbRow(NamedTuple):
    """One verb; `gdnbench --help` prints rows without importing what they name.

    `help` is the first paragraph of the verb's docstring. `path` is "module:function" in `gdnbench.verbs`, by default
    the name twice, or "module:group" for a verb that has verbs of its own. A name of two words is not listed by
    `--help`. A verb with `gpu` needs a GPU, and may run on a target. Runs of one with `resumes` may be
    resumed. `runs` says whether it takes the folder of runs as `--out`, and `profiles`
    names the folders in that of profiles which it reads or writes: it takes that one as `--profiles`.
    """

    name: str
    help: str
    path: str = ""
    gpu: bool = False
    resumes: bool = False
    runs: bool = False
    profiles: tuple[str, ...] = ()
    panel: str = ""


_PANELS = {
    "Start": (
        VerbRow(
            "list",
            "List kernels: language, last known time, idea; all, or those named, or an op's.",
            "list:list_kernels",
            runs=True,
        ),
        VerbRow("new", "Make a new kernel out of another, or a new op, ready to verify and run."),
        VerbRow(
            "doctor",
            "Check whether this machine is fit to measure, and say how to fix what is not.",
            gpu=True,
            profiles=("latency",),
        ),
    ),
    "Write": (
        VerbRow("verify", "Hold kernels against a float64 oracle.", gpu=True),
        VerbRow("score", "Build, check and measure one kernel against one other until the verdict is clear."),
        VerbRow("ledger", "Write experiments down, list them, show one, or close one by what was measured."),
        VerbRow(
            "ledger add", "Write an experiment down before it is measured: why, and what is expected.", "ledger:add"
        ),
        VerbRow(
            "ledger restore",
            "Write the sources of an entry back, into a new folder or over the kernel's own.",
            "ledger:restore",
        ),
    ),
    "Measure": (
        VerbRow(
            "run",
            "Verify and measure kernels, interleaved, and compare them with the baseline.",
            gpu=True,
            resumes=True,
            runs=True,
        ),
        VerbRow("sweep", "Race every combination of params and say which are best.", gpu=True, resumes=True, runs=True),
        VerbRow(
            "step", "Measure what a layer costs in a chain of them, by every way of launching it.", gpu=True, runs=True
        ),
    ),
    "Read": (
        VerbRow(
            "show", "Print a stored run's or sweep's table again; the latest one by default. Needs no GPU.", runs=True
        ),
        VerbRow(
            "compare",
            "Set runs, GPUs, kernels or published figures side by side; measure a kernel at two commits.",
            runs=True,
        ),
        VerbRow("history", "Follow one kernel over stored runs, and mark where it stepped. Needs no GPU.", runs=True),
        VerbRow(
            "report",
            "Write runs and sweeps as one HTML file, with sortable tables and charts. Needs no GPU and no network.",
            "html.report:report",
            runs=True,
        ),
    ),
    "Explain": (
        VerbRow(
            "explain",
            "Say what takes a kernel's time, and what to try next. Needs no GPU.",
            runs=True,
            profiles=("ncu", "latency"),
        ),
        VerbRow("inspect", "Show what the compiler made of kernels, for any architecture. Needs no GPU."),
        VerbRow(
            "ncu",
            "Put the hardware counters of kernels side by side, with Nsight Compute.",
            gpu=True,
            profiles=("ncu",),
        ),
        VerbRow(
            "proton",
            "Show where inside a kernel the time goes: by Proton for Triton, by clock stamps for CUDA and CuTe DSL.",
            gpu=True,
            profiles=("proton", "phases"),
        ),
    ),
    "Manage": (
        VerbRow("runs", "List stored runs, newest first; also those that were stopped or cannot be read."),
        VerbRow("targets", "List the machines that commands can run on: the targets of `gdnbench.toml`."),
        VerbRow("exchange", "Write kernels as files of flashinfer-bench; make kernels of such files."),
        VerbRow("mcp", "Serve the verbs as tools of the Model Context Protocol, for a language model.", "serve:mcp"),
    ),
    "": (VerbRow("worker", "Do a job that another machine sent, and report it in lines of JSON.", "serve:worker"),),
}
"""By the panel of `--help`, in its order; verbs of no panel are hidden."""

VERBS = {row.name: row._replace(panel=panel) for panel, rows in _PANELS.items() for row in rows}
TABLE_VERBS = frozenset({"list", "verify", "run", "sweep", "show", "compare", "history"})
"""They have `--sort`, `--columns`, `--legend` and `--markdown`."""
GPU_VERBS = tuple(sorted(row.name for row in VERBS.values() if row.gpu))
