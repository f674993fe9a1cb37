"""Other tools' files: NVBench's JSON, ours included, and CSV; what is wrong in them is told with its place."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from committed import RESULTS
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st

from gdnbench.analyse.figure import SourceKind, join_label, split_label
from gdnbench.analyse.foreign import load_foreign
from gdnbench.analyse.runs import load_run
from gdnbench.errors import GdnbenchError, RunFormatError, UsageError
from gdnbench.model.status import Role, Status

RUN = RESULTS / "20261121-104327-h200-decode-plain-1"
OF_RUN = Path(__file__).parent / "data" / "nvbench" / "plain-1.json.gz"  # what NVBench wrote in that run
needs_runs = pytest.mark.skipif(not RUN.is_dir(), reason="the checkout's results are not here")

MEDIAN, MEAN, CLOCK = "nv/cold/time/gpu/median", "nv/cold/time/gpu/mean", "nv/cold/sm_clock_rate/mean"
B200 = {"id": 0, "name": "NVIDIA B200", "sm_default_clock_rate": 1_965_000_000, "ecc_state": True}


def summary(tag, value):
    return {"tag": tag, "data": [{"name": "value", "type": "float64", "value": str(value)}]}


def state(mean_us=5.0, device=0, *, more=(), skip="", **axes):
    tags = [summary(MEAN, mean_us * 1e-6)] if mean_us is not None else []
    return {
        "device": device,
        "axis_values": [{"name": name, "type": "int64", "value": str(value)} for name, value in axes.items()] or None,
        "summaries": [*tags, *more] or None,
        "is_skipped": bool(skip),
        **({"skip_reason": skip} if skip else {}),
    }


def nvbench(path, *benchmarks, devices=(B200,)):
    listed = [{"name": name, "states": list(states)} for name, *states in benchmarks]
    path.write_text(json.dumps({"devices": list(devices), "benchmarks": listed}))
    return path


def csv_file(tmp_path, text, name="theirs.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# NVBench


@needs_runs
def test_the_file_of_a_run_gives_the_runs_figures():
    source, run = load_foreign(OF_RUN), load_run(RUN)
    assert (source.kind, source.gpu, source.name) == (SourceKind.FOREIGN, "h200", "plain-1.json.gz")
    ours = {(figure.label, figure.workload): figure for figure in run.figures}
    assert {(figure.label, figure.workload) for figure in source.figures} == ours.keys()
    assert ["means" in warning for warning in source.warnings] == [True]
    for figure in source.figures:
        measured = ours[figure.label, figure.workload]
        assert figure.time_us == pytest.approx(measured.time_us, rel=0.011)  # a mean where ours is a midmean
        assert figure.low_us <= figure.time_us <= figure.high_us
        assert figure.rounds_us.shape == measured.rounds_us.shape
        assert (figure.timer, figure.status) == ("nvbench", Status.OK)
        assert (figure.role is Role.FLOOR) == (measured.role is Role.FLOOR)
        assert 1900 < figure.sm_mhz < 2000


@needs_runs
def test_what_nvbench_knows_of_the_gpu_has_the_names_that_a_run_uses():
    foreign, measured = load_foreign(OF_RUN).conditions, load_run(RUN).conditions
    assert foreign.items() <= measured.items()
    assert foreign


@needs_runs
@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.99, 0.99999])
def test_a_run_file_that_is_cut_off_is_refused(tmp_path, part):
    packed, plain = OF_RUN.read_bytes(), gzip.decompress(OF_RUN.read_bytes())
    for name, whole in (("cut.json.gz", packed), ("cut.json", plain)):
        path = tmp_path / name
        path.write_bytes(whole[: int(part * len(whole))])
        with pytest.raises(RunFormatError, match="cut"):
            load_foreign(path)


def test_rounds_of_a_case_make_one_figure_without_the_burn_in(tmp_path):
    case = "decode-triton:BV=16:WARPS=4/B8_HQ16_HV32_K128_V64"
    path = nvbench(
        tmp_path / "a.json",
        (f"r00/{case}", state(50.0)),
        (f"r02/{case}", state(6.0, more=[summary(CLOCK, 1.9e9)])),
        (f"r01/{case}", state(5.0, more=[summary(CLOCK, 1.8e9)])),
        (f"r04/{case}", state(7.0)),
        ("r04/decode-fla@again/B1_HQ4_HV8_K128_V128", state()),
    )
    (figure,) = load_foreign(path).figures
    np.testing.assert_allclose(figure.rounds_us, [5, 6, np.nan, 7])
    assert (figure.kernel, figure.label) == ("decode-triton", "decode-triton:BV=16:WARPS=4")
    assert dict(figure.params) == {"BV": 16, "WARPS": 4}
    assert figure.workload == decode_at(B=8, HQ=16, HV=32, V=64)
    assert (figure.time_us, figure.sm_mhz) == pytest.approx((6.0, 1850.0))
    assert figure.low_us < 6 < figure.high_us


def test_a_single_round_has_no_interval(tmp_path):
    (figure,) = load_foreign(nvbench(tmp_path / "a.json", ("r01/x/B1_HQ4_HV8_K128_V128", state(5.0)))).figures
    assert figure.time_us == pytest.approx(5.0)
    assert math.isnan(figure.low_us)


def test_a_case_of_which_only_the_burn_in_ran_has_no_time(tmp_path):
    (figure,) = load_foreign(nvbench(tmp_path / "a.json", ("r00/x/B1_HQ4_HV8_K128_V128", state(5.0)))).figures
    assert (figure.status, figure.reason) == (Status.FAILED, "only its burn-in was measured")
    assert math.isnan(figure.time_us)


def test_another_benchmarks_states_are_figures_with_its_axes(tmp_path):
    states = [state(5.0 + batch, B=batch, HQ=4, HV=8, K=128, V=128, Algo="tma") for batch in (1, 64)]
    source = load_foreign(nvbench(tmp_path / "a.json", ("gdn_decode", *states)))
    assert [(figure.workload.B, round(figure.time_us, 9)) for figure in source.figures] == [(1, 6.0), (64, 69.0)]
    assert {figure.label for figure in source.figures} == {"gdn_decode:Algo=tma"}
    assert source.figures[0].params["Algo"] == "tma"
    assert source.figures[0].rounds_us.size == 0
    assert source.gpu == "b200"
    assert not any("workload" in warning for warning in source.warnings)


def test_a_workload_that_is_assumed_is_told(tmp_path):
    *_, warning = load_foreign(nvbench(tmp_path / "a.json", ("mine", state()))).warnings
    assert str(decode_at()) in warning


@pytest.mark.parametrize(("mean_us", "time_us"), [(7.0, 7.0), (None, 6.0)])
def test_the_mean_is_taken_and_where_there_is_none_the_median(tmp_path, mean_us, time_us):
    path = nvbench(tmp_path / "a.json", ("mine", state(mean_us, more=[summary(MEDIAN, 6e-6)])))
    assert load_foreign(path).figures[0].time_us == pytest.approx(time_us)


@pytest.mark.parametrize("value", ["nan", "-nan", "inf", "-inf", "0", "-1e-6", None, math.nan, math.inf])
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_mean_that_is_no_time_fails_its_case_and_no_other(tmp_path, value, rounds):
    mean = {"tag": MEAN, "data": [{"name": "value", "type": "float64", "value": value}]}
    strange = [state(None, more=[mean, summary(MEDIAN, 6e-6)]), *[state(5.0)] * (rounds - 1)]
    names = [(f"r{number:02d}/x/B1_HQ4_HV8_K128_V128", each) for number, each in enumerate(strange, 1)]
    source = load_foreign(nvbench(tmp_path / "a.json", *names, ("honest", state(7.0))))
    failed, honest = source.figures
    assert failed.status is Status.FAILED
    assert failed.reason.endswith(f"is {'null' if value is None else value}, which is no time; measure it again")
    assert math.isnan(failed.time_us)
    assert not np.isfinite(failed.rounds_us).any()
    assert honest.time_us == pytest.approx(7.0)


def test_a_skipped_state_keeps_nvbenchs_reason(tmp_path):
    (figure,) = load_foreign(nvbench(tmp_path / "a.json", ("x", state(None, skip="Deadlock detected")))).figures
    assert figure.reason == "NVBench skipped it: Deadlock detected"


def test_two_gpus_of_a_model_are_told_apart_and_of_two_models_refused(tmp_path):
    twins = ("x", state(5.0, device=0), state(6.0, device=1))
    source = load_foreign(nvbench(tmp_path / "a.json", twins, devices=(B200, {**B200, "id": 1})))
    assert [figure.label for figure in source.figures] == ["x:Device=0", "x:Device=1"]
    with pytest.raises(RunFormatError, match="b200, h200"):
        load_foreign(nvbench(tmp_path / "b.json", twins, devices=(B200, {"id": 1, "name": "NVIDIA H200"})))


def test_a_kernel_of_a_namespace_keeps_its_name(tmp_path):
    (figure,) = load_foreign(nvbench(tmp_path / "a.json", ("ns::größe<float>", state()))).figures
    assert (figure.kernel, figure.label) == ("ns::größe<float>",) * 2


@pytest.mark.parametrize("benchmarks", [
    [{"name": "x"}], [{"states": []}], [None], ["x"], [{"name": 3, "states": [{}]}], [{"name": "x", "states": [{}]}],
    [{"name": "x", "states": [{"summaries": [{"tag": MEAN, "data": [{"name": "value", "value": "fast"}]}]}]}],
    [{"name": "x", "states": [{"summaries": [{"tag": MEAN, "data": 3}]}]}],
    [{"name": "x", "states": [{"summaries": [], "axis_values": [{"name": "B", "value": "0"}]}]}],
    [{"name": "x", "states": [{"summaries": [], "axis_values": [{"name": "B", "value": "many"}]}]}],
    [{"name": "x", "states": [{"summaries": [], "device": {}}]}],
    [{"name": "x", "states": [{"summaries": []}, {"summaries": []}]}],
    [{"name": "x", "states": []}], [],
])  # fmt: skip
def test_what_is_not_as_nvbench_writes_it_is_refused(tmp_path, benchmarks):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"devices": [B200], "benchmarks": benchmarks}))
    with pytest.raises(RunFormatError, match=r"a\.json") as caught:
        load_foreign(path)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"benchmarks": {}}', '{"schema": 1}', "null"])
def test_json_of_something_else_is_told_what_is_understood(tmp_path, text):
    with pytest.raises(UsageError, match="not NVBench's") as caught:
        load_foreign(csv_file(tmp_path, text, "a.json"))
    assert "time_us" in caught.value.hint


def test_json_nested_without_end_is_refused(tmp_path):
    with pytest.raises(RunFormatError):
        load_foreign(csv_file(tmp_path, '{"benchmarks":' + "[" * 200_000, "a.json"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "states", "summaries", "tag", "data", "value", "device", "id", "axis_values"]),
            inner,
        )
    ),
    max_leaves=20,
)


@given(benchmarks=st.lists(JSON, max_size=3), devices=JSON)
def test_no_json_gets_past_the_errors_that_a_user_can_read(tmp_path_factory, benchmarks, devices):
    path = tmp_path_factory.mktemp("any") / "a.json"
    path.write_text(json.dumps({"devices": devices, "benchmarks": benchmarks}))
    try:
        load_foreign(path)
    except GdnbenchError as error:
        assert error.hint


# CSV


def test_a_csv_of_two_columns_is_enough(tmp_path):
    source = load_foreign(csv_file(tmp_path, "kernel,time_us\nmine,5.5\n"))
    (figure,) = source.figures
    assert (figure.kernel, figure.label, figure.time_us, figure.op) == ("mine", "mine", 5.5, "decode")
    assert (figure.workload, figure.timer, source.gpu) == (decode_at(), "", "")
    assert math.isnan(figure.low_us)
    assert ["B=1" in warning for warning in source.warnings] == [True]


def test_a_csv_with_everything(tmp_path):
    text = (
        "time_us,kernel,B,HQ,HV,K,V,gpu,timer,op,time_lo_us,time_hi_us\n"
        "5.5,decode-triton:BV=16,64,16,32,128,64,NVIDIA B200,cupti,decode,5.4,5.6\n"
        "2.5,decode-floor-empty,64,16,32,128,64,b200,cupti,,,\n"
    )
    source = load_foreign(csv_file(tmp_path, text))
    figure, floor = source.figures
    assert (figure.kernel, figure.params["BV"], figure.workload) == (
        "decode-triton",
        16,
        decode_at(B=64, HQ=16, HV=32, V=64),
    )
    assert (figure.low_us, figure.high_us, figure.timer) == (5.4, 5.6, "cupti")
    assert (source.gpu, source.warnings, floor.role, floor.op) == ("b200", (), Role.FLOOR, "decode")


def test_columns_that_are_not_known_are_passed_over_with_a_warning(tmp_path):
    source = load_foreign(csv_file(tmp_path, "kernel,time_us,B,HQ,HV,K,V,mood,größe\nx,1,1,4,8,128,128,good,2\n"))
    assert source.warnings == ("columns that gdnbench does not know were ignored: mood, größe",)


@pytest.mark.parametrize("text", [
    "\ufeffkernel,time_us\r\nx,1.5\r\n",  # as a spreadsheet writes it
    "kernel,time_us\nx,1.5",  # without a last line end
    'kernel , "time_us"\n x , 1.5 \n',
    "\nkernel,time_us\n",
])  # fmt: skip
def test_csv_as_various_programs_write_it(tmp_path, text):
    path = csv_file(tmp_path, text)
    if text.startswith("\n"):
        with pytest.raises(RunFormatError, match="lacks the column"):
            load_foreign(path)
    elif '"' in text:
        with pytest.raises(RunFormatError):
            load_foreign(path)
    else:
        assert load_foreign(path).figures[0].time_us == 1.5


def test_blank_lines_are_passed_over_and_counted(tmp_path):
    with pytest.raises(RunFormatError, match="line 6"):
        load_foreign(csv_file(tmp_path, "kernel,time_us\n\nx,1\n,\n\ny,slow\n"))


def test_an_empty_time_is_a_kernel_that_was_not_measured(tmp_path):
    (figure,) = load_foreign(csv_file(tmp_path, "kernel,time_us\nx,\n")).figures
    assert (figure.status, figure.reason) == (Status.NOT_RUN, "the file gives no time")


def test_text_that_is_no_csv_by_name_is_read_by_its_header(tmp_path):
    assert load_foreign(csv_file(tmp_path, "gpu,kernel,time_us\nb200,x,1\n", "times.txt")).gpu == "b200"
    packed = tmp_path / "times.csv.gz"
    packed.write_bytes(gzip.compress(b"kernel,time_us\nx,1\n"))
    assert load_foreign(packed).figures[0].time_us == 1


@pytest.mark.parametrize(("text", "said"), [
    ("", "kernel and time_us"),
    ("kernel,time\nx,1\n", "time_us"),
    ("name,time_us\nx,1\n", "kernel"),
    ("kernel;time_us\nx;1\n", "kernel and time_us"),
    ("kernel,time_us\n", "no figures"),
    ("kernel,time_us\nx\n", "line 2 has 1 cells"),
    ("kernel,time_us\nx,1,2\n", "line 2 has 3 cells"),
    ("kernel,time_us\nx,1,5\n", "line 2 has 3 cells"),
    ("kernel,time_us,kernel\nx,1,y\n", "kernel twice"),
    ('kernel,time_us\n"x,1\n', "not CSV"),
    ("kernel,time_us\n,1\n", "line 2: kernel is empty"),
    ("kernel,time_us\nx,fast\n", "line 2.*fast"),
    ("kernel,time_us\nx,nan\n", "line 2.*nan"),
    ("kernel,time_us\nx,-1\n", "line 2.*-1"),
    ("kernel,time_us\nx,1e999\n", "line 2.*1e999"),
    ("kernel,time_us\nx,0\n", "line 2"),
    ("kernel,time_us,B\nx,1,1.5\n", "line 2"),
    ("kernel,time_us,B\nx,1,0\n", "line 2.*B=0"),
    ("kernel,time_us,B\nx,1," + "9" * 5000 + "\n", "line 2"),
    ("kernel,time_us,time_lo_us\nx,1,2\n", "line 2.*outside its interval"),
    ("kernel,time_us,time_hi_us\nx,1,0.5\n", "line 2.*outside its interval"),
    ("kernel,time_us\nx,1\ny,2\nx,3\n", "line 4: x at B=1 qk4_v8 is there a second time"),
    ("kernel,time_us,gpu\nx,1,b200\ny,1,h200\n", "b200, h200"),
    ("kernel,time_us\n" + "x" * 200_000 + ",1\n", "not CSV"),
])  # fmt: skip
def test_a_wrong_csv_is_refused_with_the_place(tmp_path, text, said):
    with pytest.raises(RunFormatError, match=said) as caught:
        load_foreign(csv_file(tmp_path, text))
    assert caught.value.hint


@pytest.mark.parametrize("data", [
    b"", b"hello\n", b"\x89PNG\r\n\x1a\n\x00", b"\x7fELF", b"# Results\n\n| kernel | time |\n", b"\xff\xfek\x00",
])  # fmt: skip
def test_a_file_of_neither_format_is_told_what_is_understood(tmp_path, data):
    (tmp_path / "notes").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        load_foreign(tmp_path / "notes")
    assert not isinstance(caught.value, RunFormatError)
    assert "NVBench's JSON" in caught.value.hint


@needs_runs
@pytest.mark.parametrize("name", ["measurements.csv", "rounds.csv.gz"])
def test_a_part_of_a_run_points_to_its_folder(name):
    with pytest.raises(UsageError, match="gdnbench run") as caught:
        load_foreign(RUN / name)
    assert str(RUN) in caught.value.hint


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_a_file_that_cannot_be_read_is_told(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be read"):
        load_foreign(tmp_path / name)


def test_a_damaged_gzip_file_is_refused(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(b"\x1f\x8b" + b"\x00" * 40)
    with pytest.raises(RunFormatError, match="damaged"):
        load_foreign(tmp_path / "a.json.gz")


NAMES = st.text(st.characters(blacklist_characters=":=\r\n", blacklist_categories=("Cs",)), min_size=1, max_size=12)


@given(kernel=NAMES, params=st.dictionaries(NAMES, st.integers(-9, 999), max_size=3))
def test_labels_come_apart_as_they_were_put_together(kernel, params):
    label = join_label(kernel, params)
    assert split_label(label) == (kernel, params)
    assert join_label(*split_label(label)) == label
