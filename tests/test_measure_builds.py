"""One row a build, also where a kernel's bare name stands for several."""

from types import SimpleNamespace

import pytest
from decode_workloads import decode_at
from run_data import case

from gdnbench.codegen.builds import Builds, build_rows
from gdnbench.errors import BuildError
from gdnbench.model.gpu import Build
from gdnbench.model.kernel import CudaKernel, TorchKernel
from gdnbench.model.status import Status
from gdnbench.store.journal import Examined

SMALL, LARGE = decode_at(B=1), decode_at(B=64)
ARCHS = ("sm_90", "sm_100")
CATALOG = SimpleNamespace(
    entries={
        "decode-x": SimpleNamespace(
            kernel=CudaKernel(name="decode-x", entry="f", grid=lambda s, p: (1,), block=lambda s, p: 32)
        ),
        "decode-torch": SimpleNamespace(kernel=TorchKernel(name="decode-torch")),
    }
)


def built(cases, registers=lambda each: each.variant.params["BV"]):
    return Builds(
        made={
            (each.variant, each.workload, arch, "f"): Build(arch, registers(each), 0, 0, 128, 4096)
            for each in cases
            for arch in ARCHS
        }
    )


def rows_of(cases, builds=None, interpreted=None):
    found = build_rows(CATALOG, cases, ARCHS, builds or built(cases), interpreted or {})
    return [(row.label, row.arch, row.registers) for row in found]


def test_a_variant_is_listed_once_for_each_architecture_however_many_workloads_it_has():
    cases = [case("decode-x", workload=workload, BV=8) for workload in (SMALL, LARGE)]
    assert rows_of(cases) == [("decode-x", "sm_90", 8), ("decode-x", "sm_100", 8)]


def test_builds_of_one_name_with_other_params_are_all_listed_and_told_apart():
    """As where the defaults of a kernel change with the workload."""
    cases = [case("decode-x", workload=workload, BV=bv) for workload, bv in ((SMALL, 8), (LARGE, 16))]
    assert rows_of(cases) == [
        *(("decode-x:BV=8", arch, 8) for arch in ARCHS),
        *(("decode-x:BV=16", arch, 16) for arch in ARCHS),
    ]


def test_a_batch_size_that_is_compiled_otherwise_has_a_row_of_its_own():
    """As with `warps=lambda workload, p: 1 if workload.B == 1 else 8`."""
    cases = [case("decode-x", workload=decode_at(B=batch), BV=8) for batch in (1, 8, 64)]
    builds = built(cases, lambda each: 40 if each.workload.B == 1 else 24)
    assert rows_of(cases, builds) == [
        *((f"decode-x at B={batch}", "sm_90", registers) for batch, registers in ((1, 40), (8, 24))),
        *((f"decode-x at B={batch}", "sm_100", registers) for batch, registers in ((1, 40), (8, 24))),
    ]
    assert [builds.of(each, "sm_90").registers for each in cases] == [40, 24, 24]


def test_a_build_that_failed_is_listed_with_the_compilers_words():
    one = case("decode-x", BV=8)
    builds = Builds(failed={(one.variant, one.workload, "sm_90", "f"): BuildError("error: no such thing")})
    (row,) = build_rows(CATALOG, [one], ARCHS, builds, {})
    assert (row.status, row.reason, row.registers) == ("build-failed", "error: no such thing", -1)


@pytest.mark.parametrize(
    ("status", "reason", "said"), [(Status.OK, "", "passed"), (Status.FAILED, "IndexError", "failed: IndexError")]
)
def test_the_interpreters_verdict_goes_with_the_variant_that_it_judged(status, reason, said):
    cases = [case("decode-x", workload=workload, BV=bv) for workload, bv in ((SMALL, 8), (LARGE, 16))]
    found = build_rows(CATALOG, cases, ARCHS, built(cases), {cases[0].id: Examined(cases[0].id, status, reason)})
    assert [row.interpreter for row in found] == [said, said, "", ""]


def test_what_a_dispatcher_picked_is_told_with_its_kernel():
    cases = [
        case("decode-auto", workload=workload, kernel="decode-x", BV=bv) for workload, bv in ((SMALL, 8), (LARGE, 16))
    ]
    assert rows_of(cases) == [
        *(("decode-auto: decode-x BV=8", arch, 8) for arch in ARCHS),
        *(("decode-auto: decode-x BV=16", arch, 16) for arch in ARCHS),
    ]


def test_every_launch_of_a_kernel_has_a_row_of_its_own():
    one = case("decode-x", BV=8)
    made = {
        (one.variant, one.workload, "sm_90", entry): Build("sm_90", registers, 0, 0, 128, 4096)
        for entry, registers in (("prepare", 40), ("finish", 24))
    }
    builds = Builds(made=made)
    assert rows_of([one], builds) == [("decode-x", "sm_90", 40), ("decode-x", "sm_90", 24)]
    assert list(builds.launches_of(one, "sm_90")) == ["prepare", "finish"]
    assert builds.of(one, "sm_90").registers == 40


def test_of_products_that_ptxas_serializes_a_case_says_in_which_launch_and_why():
    one, other, sound = (case("decode-x", BV=bv) for bv in (8, 16, 32))
    reasons = {(one, "f"): "calls", (other, "f"): "", (other, "g"): "registers", (sound, "f"): ""}
    builds = Builds(
        made={
            (each.variant, each.workload, arch, launch): Build(
                arch, 32, 0, 0, 128, 4096, serialized_because=why if arch == "sm_90" else ""
            )
            for (each, launch), why in reasons.items()
            for arch in ARCHS
        }
    )
    cases = (one, other, sound)
    assert builds.serialized_warnings(cases, "sm_90") == {
        one.id: "ptxas serializes the wgmma: calls",
        other.id: "ptxas serializes the wgmma of g: registers",
    }
    assert builds.serialized_warnings(cases, "sm_100") == {}
    rows = {(row.label, row.arch): row.serialized_because for row in build_rows(CATALOG, [one], ARCHS, builds, {})}
    assert rows == {("decode-x", "sm_90"): "calls", ("decode-x", "sm_100"): ""}
