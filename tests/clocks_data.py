"""A run with three clocks, made up for the tests: what each clock says of each case is known."""

from pathlib import Path

from decode_workloads import decode_at
from run_data import case, info, store_times, timing, versus

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.store.info import write_info
from gdnbench.store.measurements import write_measurements

RUN_ID = "20260102-030405-h200-decode-clocks"
WORKLOADS = (decode_at(B=1), decode_at(B=8))
LABELS = {
    "decode-fla": Role.BASELINE,
    "decode-floor-empty": Role.FLOOR,
    "decode-floor-copy": Role.FLOOR,
    "decode-v4": Role.KERNEL,
    "decode-triton": Role.KERNEL,
}
# µs at B=1 on an H200; at B=8 the kernels take 2 µs more by every clock.
TIMES_US = {
    "nvbench": (5.04, 2.74, 3.99, 4.60, 4.35),
    "cupti": (2.784, 0.608, 1.728, 2.336, 2.080),
    "graph": (2.96, 0.83, 2.00, 2.54, 2.29),
}
HOST_US = (85.2, 2.1, 2.4, 2.3, 10.6)


def time_us(clock, label, workload):
    more = 2.0 if workload.B == 8 and label != "decode-floor-empty" else 0.0
    return TIMES_US[clock][list(LABELS).index(label)] + more


def rows_of(clock, labels=tuple(LABELS)):
    """A row per case by one clock, the control's last."""
    rows = []
    for workload in WORKLOADS:
        baseline_us = time_us(clock, "decode-fla", workload)
        for label in labels:
            role, own_us = LABELS[label], time_us(clock, label, workload)
            speedup = baseline_us / own_us
            against = versus(speedup, "faster" if speedup > 1 else "slower") if role is Role.KERNEL else None
            rows.append(_row(clock, case(label, role, workload), own_us, against))
        rows.append(_row(clock, case("decode-fla", Role.CONTROL, workload), baseline_us, versus(1.0003, "same")))
    return rows


def _row(clock, of, own_us, against):
    label = of.variant.label
    sol = time_us(clock, "decode-floor-copy", of.workload) / own_us
    host_us = HOST_US[list(LABELS).index(label)] if clock == "nvbench" else float("nan")
    return Measurement(
        case=of,
        status=Status.OK,
        timing=timing(own_us, timer=clock, cpu_time_us=host_us, sol=sol),
        versus=against,
        nbytes=0 if label == "decode-floor-empty" else 1_054_816,
        clock=None if clock == "nvbench" else clock,
    )


def store_clocks(results: Path, rows=None, clocks=("cupti", "graph"), run_id=RUN_ID, **more):
    """A run's folder with every file that a run with further clocks has; `rows` replaces all of them."""
    folder = results / run_id
    folder.mkdir(parents=True)
    own = rows_of("nvbench")
    rows = [*own, *(row for clock in clocks for row in rows_of(clock))] if rows is None else rows
    cases = [row.case.to_dict() for row in rows if row.clock is None]
    settings = {**info().settings, "clocks": list(clocks)}
    described = info(run_id=run_id, cases=cases, settings=settings, **more)
    write_info(folder, described)
    write_measurements(folder, described, rows)
    store_times(folder, run_id, [row for row in rows if row.timing], lambda drawn: 1 + 0.002 * drawn, 20)
    return folder


def without_time(row, status=Status.FAILED, reason="CUPTI recorded 0 of 100 launches"):
    return Measurement(case=row.case, status=status, reason=reason, nbytes=row.nbytes, clock=row.clock)
