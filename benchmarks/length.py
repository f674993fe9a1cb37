"""How far are states off along a sequence, without a GPU? The figures of docs/verifying.md.

Follows the references of decode-pool, with fp32 and bf16 states, and of decode by `verify --length`, writes what that
prints as CSV into `benchmarks/length.csv`, which takes minutes, and prints the page's table. `--stored` prints the
table of the file as it is.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

STORED = Path(__file__).with_suffix(".csv")
OF_POOL = ("decode-pool-reference", "--length", "1k,4k,16k")
OF_DECODE = ("decode-reference", "--length", "1k,4k,16k,64k", "--profile", "never")
_FIELDS = (
    *("kernel", "state_type", "profile", "keys", "tokens", "state_error", "emulated_state_error"),
    *("output_error", "emulated_output_error", "largest_state", "gate_share"),
)

Mark = Mapping[str, str]
"""A row of the file."""


def main(words: Sequence[str]) -> None:
    """Measures, unless `--stored`, and prints the table."""
    if "--stored" not in words:
        found = [mark for command in (OF_POOL, OF_DECODE) for mark in follow(command)]
        with STORED.open("w", newline="") as file:
            rows = csv.DictWriter(file, _FIELDS, extrasaction="ignore", lineterminator="\n")
            rows.writeheader()
            rows.writerows(found)
    print("\n".join(table(read())))


def follow(command: Sequence[str]) -> list[Mark]:
    """The marks of kernels that are followed, by seed 1."""
    verify = [sys.executable, "-m", "gdnbench", "verify", *command, "--gpu", "cpu", "--seed", "1", "--csv", "-q"]
    done = subprocess.run([*verify, "--fresh"], check=True, stdout=subprocess.PIPE, text=True)
    return list(csv.DictReader(done.stdout.splitlines()))


def read() -> list[Mark]:
    """The stored marks."""
    with STORED.open(newline="") as file:
        return list(csv.DictReader(file))


def table(marks: Sequence[Mark]) -> Iterator[str]:
    """Yields the page's table of decode-pool-reference: a row for each profile and kind of keys."""
    of_pool = [mark for mark in marks if mark["kernel"] == OF_POOL[0]]
    yield (
        "| profile, keys | max abs(S) | fp32 state, 1k / 4k / 16k | bf16 state, 1k / 4k / 16k | rounded, 16k "
        "| output beside it, 16k |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    kinds = groupby(of_pool, lambda mark: (mark["state_type"], mark["profile"], mark["keys"]))
    by_kind = {key: list(group) for key, group in kinds}
    for (state_type, profile, keys), fp32 in by_kind.items():
        if state_type == "float32":
            bf16 = by_kind["bfloat16", profile, keys]
            largest = max(float(mark["largest_state"]) for mark in (*fp32, *bf16))
            errors = [" / ".join(_short(mark["state_error"]) for mark in each) for each in (fp32, bf16)]
            last = [_short(bf16[-1][name]) for name in ("emulated_state_error", "output_error")]
            yield f"| {profile}, {keys} | {largest:.1f} | {' | '.join([*errors, *last])} |"


def _short(number: str) -> str:
    return f"{float(number):.1e}".replace("e-0", "e-")


if __name__ == "__main__":
    main(sys.argv[1:])
