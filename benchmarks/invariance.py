"""What do the bits of a sequence depend on, on a GPU? The table of docs/serving.md.

Tests kernels of ours and of libraries by `verify --invariance`, all commands side by side, which takes two minutes, and
keeps what was compared in `benchmarks/invariance.csv`; then prints the page's table. `--stored` prints the table of the
file as it is. Commands whose CSV lies in a folder already are not run again: `python -m benchmarks.invariance FOLDER`.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

STORED = Path(__file__).with_suffix(".csv")
POOL = ("--shape", "B=1,8 state=fp32,bf16")
DRAFTS = ("--shape", "B=2 keep=last,each state=fp32,bf16", "--path", "decode-pool-v2")
PROMPTS = ("--shape", "lengths=64,1024 heads=qk16_v16")
COMMANDS: Mapping[str, Sequence[str]] = {
    "decode": (
        "decode-triton,decode-triton-one,decode-v4,decode-v8,decode-v9,decode-v10,decode-v11,decode-auto",
        *("--shape", "B=1,8"),
    ),
    "decode-libs": ("decode-fla,decode-fla-unfused,decode-flashinfer", "--shape", "B=1,8"),
    "pool": ("decode-pool-v1,decode-pool-v2", *POOL),
    "pool-libs": ("decode-pool-fla,decode-pool-flashinfer", *POOL),
    "layer": ("layer-v1,layer-chain", "--shape", "B=1,8"),
    "layer-libs": ("layer-fla,layer-flashinfer", "--shape", "B=1,8"),
    "verify": ("verify-v1,verify-v2,verify-v3", *DRAFTS),
    "verify-libs": ("verify-fla,verify-flashinfer", *DRAFTS),
    "prefill": (
        "prefill-triton,prefill-v1,prefill-v3,prefill-v4,prefill-v6,prefill-v7,prefill-auto",
        *("--shape", "lengths=1024", "--path", "decode-v9"),
    ),
    "fla": ("prefill-fla,prefill-fla-recurrent", *PROMPTS),
    "flashinfer": ("prefill-flashinfer,prefill-flashinfer-cp:CP=off", *PROMPTS),
    "qla": ("prefill-flashqla", *PROMPTS),
}
KINDS = ("batch", "order", "append", "chunking", "rerun")
_SIZES = ("B", "T", "KEEP", "STATE", "HQ", "HV", "lengths")  # that tell the workloads here apart
_FIELDS = ("label", "workload", "kind", "claimed", "pairs", "differing", "of", "by_tensor", "in_gates", "pair", "first")

Row = Mapping[str, str]
"""A kind of invariance of a kernel at a workload."""


def main(words: Sequence[str]) -> None:
    """Tests, unless `--stored`, and prints the table."""
    if "--stored" not in words:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(words[0] if words else temporary)
            running = [start(name, folder) for name in COMMANDS if not (folder / f"inv-{name}.csv").exists()]
            for each in running:
                each.wait()
            rows = [*chain.from_iterable(compared(folder / f"inv-{name}.csv") for name in COMMANDS)]
        with STORED.open("w", newline="") as file:
            writer = csv.DictWriter(file, _FIELDS, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print("\n".join(table(read())))


def start(name: str, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a command whose CSV goes into a file of a folder."""
    words = [sys.executable, "-m", "gdnbench", "verify", *COMMANDS[name], "--invariance", "--seed", "1", "--csv", "-q"]
    return subprocess.Popen([*words, "--fresh"], stdout=(folder / f"inv-{name}.csv").open("wb"))


def compared(path: Path) -> Iterator[dict[str, str]]:
    """Yields what a command compared, with the sizes of each workload in one word."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not row["skipped"]:
                yield {**row, "workload": " ".join(f"{name}={row[name]}" for name in _SIZES if row.get(name))}


def read() -> list[dict[str, str]]:
    """The stored rows."""
    with STORED.open(newline="") as file:
        return list(csv.DictReader(file))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the page's table: kernels of which the same was found; of each kind the largest share that differs."""
    yield f"| kernels | {' | '.join(KINDS)} |"
    yield "|---|" + "--:|" * len(KINDS)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for label in dict.fromkeys(row["label"] for row in rows):
        of_label = [row for row in rows if row["label"] == label]
        cells = tuple(_cell([row for row in of_label if row["kind"] == kind]) for kind in KINDS)
        op = label[: label.index("-", len("decode-")) if label.startswith("decode-pool") else label.index("-")]
        alike.setdefault((op, cells), []).append(f"`{label}`")
    for (_, cells), labels in alike.items():
        yield f"| {', '.join(labels)} | {' | '.join(cells)} |"


def _cell(rows: Sequence[Row]) -> str:
    share = max((int(row["differing"]) / int(row["of"]) for row in rows), default=None)
    return "" if share is None else f"{100 * share:.2g} %" if share else "equal"


if __name__ == "__main__":
    main(sys.argv[1:])
