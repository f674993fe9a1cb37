"""Small ops after public bug reports, each with the outcome that is right: no fault passes, no good kernel fails.

What is in `cases/` is of a kind of fault, or a correct kernel that looks like one (`good-`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from faults import answer

CASES = Path(__file__).parent / "cases"
PASS, WRONG, BROKEN, FAILED = 0, 3, 6, 8


@dataclass(frozen=True)
class Outcome:
    """What `gdnbench verify 'OP-*' --gpu cpu` must say.

    Attributes:
        code: its exit code.
        told: each must be in what it prints.
        silent: none of these may be.
    """

    code: int
    told: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


UNSAFE = "unsafe"
VERIFIED = {
    "broken-and-glob": Outcome(BROKEN, ("variant.py:5", "arguments"), ("there is no kernel",)),
    "cluster-exits-early": Outcome(WRONG, (UNSAFE, "shared memory of another block")),
    "counter-not-reset": Outcome(WRONG, ("launched again",)),
    "elected-arrive": Outcome(WRONG, (UNSAFE, "no barrier between")),
    "good-assert": Outcome(PASS, ("1 passed",)),
    "good-cg": Outcome(PASS, ("2 passed",)),
    "good-counter-reset": Outcome(PASS, ("1 passed",)),
    "good-libcu-pipeline": Outcome(PASS, ("1 passed",)),
    "grid-y-65535": Outcome(FAILED, ("failed scaled-cuda N=2048", "failed scaled-triton N=2048", "65,535")),
    "launch-bounds": Outcome(FAILED, ("__launch_bounds__ are 128",)),
    "leaves-before-barrier": Outcome(WRONG, (UNSAFE, "does not take part")),
    "mbarrier-init-unfenced": Outcome(WRONG, (UNSAFE, "fence")),
    "no-macros": Outcome(WRONG, (UNSAFE, "kernel.cu:7"), ("NVRTC does not run",)),
    "numerics-one-value": Outcome(FAILED, ("numerics.py", "make_inputs() in"), ("not enough values",)),
    "split-sum-races": Outcome(WRONG, ("unsafe splitsum-cuda", "unsafe splitsum-triton")),
    "too-many-threads": Outcome(FAILED, ("2,048 threads", "1,024")),
    "volatile-warp": Outcome(WRONG, (UNSAFE, "no barrier between")),
    "volatile-warp-plain": Outcome(WRONG, (UNSAFE,)),
}


def tried(name: str, *words: str) -> tuple[int, str]:
    """Exit code and all that a verb says of a case, in one line."""
    done = answer(*words, GDNBENCH_KERNELS=str(CASES / name), COLUMNS="500", OMP_NUM_THREADS="1")
    return done.code, " ".join((done.out + done.err).split())


def op_of(name: str) -> str:
    return next(folder.name for folder in (CASES / name).iterdir() if (folder / "op.py").exists())


@pytest.mark.parametrize("name", VERIFIED)
def test_verify_has_the_outcome_that_is_right(name):
    expected = VERIFIED[name]
    code, said = tried(name, "verify", f"{op_of(name)}-*", "--gpu", "cpu")
    assert code == expected.code, said
    assert all(word in said for word in expected.told), said
    assert not any(word in said for word in expected.silent), said


@pytest.mark.parametrize("kernel", ["plain", "pointer", "helper"])
def test_an_offset_that_may_pass_32_bits_is_found(kernel):
    _, said = tried("int-offset-batch", "lint", f"accum-{kernel}")
    assert "C5" in said


def test_a_load_that_the_compiler_moves_before_a_store_is_found():
    code, said = tried("store-then-load-staged", "lint", "--op", "relay")
    assert code == 1
    assert "kernel.py:12:29: T10 the load of buffer follows its store in line 10" in said


def test_every_case_is_tried():
    others = {"int-offset-batch", "store-then-load-staged"}
    assert {folder.name for folder in CASES.iterdir()} == VERIFIED.keys() | others
