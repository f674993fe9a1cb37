"""compute-sanitizer on a GPU: planted faults are found by tool and line, and honest kernels pass."""

import re

import pytest
from faults import ADVERSARIAL, Gdnbench

from gdnbench.profile.sanitizer import find_sanitizer, need_sanitizer

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

PLANTED = {
    "test-past-the-end": "memcheck",
    "test-raced": "racecheck",
    "test-unwritten-shared": "initcheck",
    "test-unwritten-global": "initcheck",
    "test-divergent-barrier": "synccheck",
}
HONEST = (
    *("test-planted", "decode-v4", "decode-v8", "decode-v9"),
    *("decode-triton", "decode-triton-tma", "decode-triton-ws"),
)


@pytest.fixture(scope="module", autouse=True)
def _tools():
    if find_sanitizer() is None:
        pytest.skip("no compute-sanitizer here")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Gdnbench(tmp_path_factory.mktemp("sanitizer"), (ADVERSARIAL / "gpu",), takes_turns=True)


def sanitized(bench, label):
    done = bench("verify", label, "--sanitize", "--gpu", "auto", "--shape", "B=1", "--step-limit", "15", "--json", "-q")
    return done, {row["gate"]: row for row in done.document["gates"]}


def planted_line(label):
    """The line that ends with the label as a comment."""
    lines = (ADVERSARIAL / "gpu/decode/planted/kernel.cu").read_text().splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if line.endswith(f"// {label}")]
    return number


@pytest.mark.parametrize("label", PLANTED)
def test_a_planted_fault_is_unsafe_by_its_tool_and_line(bench, label):
    if label == "test-unwritten-shared" and "--initcheck-address-space" not in need_sanitizer().options:
        pytest.skip("initcheck of this compute-sanitizer does not look at shared memory")
    done, gates = sanitized(bench, label)
    row = gates[f"compute-sanitizer {PLANTED[label]}"]
    assert (done.code, row["status"], row["passed"]) == (3, "unsafe", False), row["reason"]
    assert f"{PLANTED[label]}: {row['where']}: planted: " in row["reason"]
    # Of a race the tool names the write first, which is the line before; of a barrier that some threads do not reach,
    # also the barrier at which those wait, in either order.
    places = {row["where"], *re.findall(r"(kernel\.cu:\d+)", row["reason"])}
    assert f"kernel.cu:{planted_line(label)}" in places, row["reason"]


@pytest.mark.parametrize("label", HONEST)
def test_an_honest_kernel_passes_every_tool(bench, label):
    done, gates = sanitized(bench, label)
    reason = next(iter(gates.values()))["reason"]
    assert (done.code, reason) == (0, "")
    assert sum(gate.startswith("compute-sanitizer ") for gate in gates) == 4
