"""Published figures: every table in the repository loads and is cited, and a damaged one says where."""

import math
import shutil

import pytest
from committed import RESULTS

from gdnbench.analyse.figure import SourceKind
from gdnbench.analyse.sources import PUBLISHED_COLUMNS, find_published, list_published, load_published
from gdnbench.errors import RunFormatError, UnknownNameError
from gdnbench.profile.ncu.quantities import value_of
from gdnbench.profile.ncu.store import read_profiles

TABLES = [
    *("b200", "b200-cupti", "b200-final", "b200-hints", "contest", "flashinfer", "flashqla", "fp8-gemm-pos"),
    *("gb200-kda-layer", "gb300-kda", "h100-kda", "h20-kda", "nvfp4"),
    *("rtx3090", "rtx3090-bv", "rtx3090-cupti", "rtx3090-final", "rtx3090-hints", "rtx3090-ncu"),
]
GPUS = {"contest": "b200", "flashinfer": "b200", "flashqla": "h200", "fp8-gemm-pos": "b200", "nvfp4": "b200"}
"""Of the others it is in the name."""
OPS = {"flashqla": "prefill", "fp8-gemm-pos": "fp8-gemm-pos", "nvfp4": "nvfp4-", "gb200-kda-layer": "kda-layer"}
OPS |= dict.fromkeys(("gb300-kda", "h100-kda", "h20-kda"), "kda-prefill")
HEADER = ",".join((*PUBLISHED_COLUMNS[:2], "B", "HQ", "HV", "K", "V", *PUBLISHED_COLUMNS[2:]))
ROW = "decode,decode-v4,1,4,8,128,128,nvbench,7.07,b200,a paper,2026-02-24,"

pytestmark = pytest.mark.skipif(not (RESULTS / "published").is_dir(), reason="the checkout's results are not here")


def table(tmp_path, *lines, name="mine"):
    folder = tmp_path / "published" / name
    folder.mkdir(parents=True)
    (folder / "figures.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_repositorys_tables():
    assert list(list_published(RESULTS)) == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_every_figure_is_cited_and_has_a_time_and_no_more_certainty_than_was_published(name):
    source = load_published(find_published(RESULTS, name))
    assert (source.name, source.kind) == (f"published/{name}", SourceKind.PUBLISHED)
    assert source.gpu == GPUS.get(name, name.split("-")[0])
    for figure in source.figures:
        assert figure.citation
        assert figure.time_us > 1
        assert math.isnan(figure.low_us)
        assert math.isnan(figure.high_us)
        assert figure.rounds_us.size == 0
        assert figure.op.startswith(OPS.get(name, "decode"))


def test_published_counters_are_read_as_profiles_and_agree_with_the_published_durations():
    folder = find_published(RESULTS, "rtx3090-ncu")
    profiles = [each for path in folder.glob("*.csv") if path.name != "figures.csv" for each in read_profiles(path)]
    durations = {(each.label, round(value_of(each, "duration_us") or 0, 3)) for each in profiles}
    assert {each.gpu for each in profiles} == {"NVIDIA GeForce RTX 3090"}
    figures = [each for each in load_published(folder).figures if each.kernel != "decode-flashinfer"]
    assert all((each.label, each.time_us) in durations for each in figures)


def test_a_citation_tells_where_when_and_what(tmp_path):
    folder = table(tmp_path, HEADER, ROW + "FLA-derived Triton", ROW.replace("v4", "v5").replace("2026-02-24", ""))
    first, second = load_published(folder).figures
    assert first.citation == "a paper, 2026-02-24 (FLA-derived Triton)"
    assert second.citation == "a paper"


@pytest.mark.parametrize("name", ["b200", "published/b200", "published/b200/"])
def test_a_table_is_found_by_its_name_with_or_without_the_folder(name):
    assert find_published(RESULTS, name) == RESULTS / "published" / "b200"


@pytest.mark.parametrize(("name", "hint"), [("b20", "b200"), ("rtx3900", "rtx3090"), ("", "b200"), ("zzz", "contest")])
def test_an_unknown_name_gets_the_nearest_ones(name, hint):
    with pytest.raises(UnknownNameError) as caught:
        find_published(RESULTS, name)
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["..", "../published/b200", "/etc", "published/../published/b200"])
def test_a_name_is_not_a_path(name):
    with pytest.raises(UnknownNameError):
        find_published(RESULTS, name)


@pytest.mark.parametrize("column", PUBLISHED_COLUMNS)
def test_a_missing_column_is_named(tmp_path, column):
    position = HEADER.split(",").index(column)
    lines = [",".join(cell for at, cell in enumerate(line.split(",")) if at != position) for line in (HEADER, ROW)]
    with pytest.raises(RunFormatError, match=column):
        load_published(table(tmp_path, *lines))


@pytest.mark.parametrize(("old", "new", "said"), [
    ("7.07", "fast", "line 3: time_us"),
    ("7.07", "", "line 3"),
    ("7.07", "nan", "line 3: time_us"),
    ("7.07", "-1", "line 3: time_us"),
    ("7.07", "0", "line 3"),
    ("7.07", "1e999", "line 3"),
    (",1,4,8", ",1.5,4,8", "line 3"),
    (",1,4,8", ",0,4,8", "line 3.*B=0"),
    (",1,4,8", ",1,3,8", "line 3.*HV=8"),
    ("decode-v4", "", "line 3.*kernel is empty"),
    ("nvbench", "", "line 3.*timer is empty"),
    ("a paper", " ", "line 3.*published_in is empty"),
    ("b200", "h200", "2 GPUs.*b200, h200"),
])  # fmt: skip
def test_a_wrong_cell_is_named_with_its_line(tmp_path, old, new, said):
    folder = table(tmp_path, HEADER, ROW.replace("decode-v4", "decode-v1"), ROW.replace(old, new, 1))
    with pytest.raises(RunFormatError, match=said) as caught:
        load_published(folder)
    assert caught.value.hint


def test_a_figure_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(RunFormatError, match="decode-v4 at B=1 qk4_v8 twice"):
        load_published(table(tmp_path, HEADER, ROW, ROW.replace("7.07", "7.08")))


@pytest.mark.parametrize("text", [b"", b"\n", HEADER.encode() + b"\n", b"\xff\xfe\x00", b"\x00" * 100])
def test_an_empty_table_or_none_at_all_is_refused(tmp_path, text):
    (tmp_path / "figures.csv").write_bytes(text)
    with pytest.raises(RunFormatError):
        load_published(tmp_path)


def test_a_table_cut_off_anywhere_is_refused_or_shorter_by_whole_rows(tmp_path):
    folder = find_published(RESULTS, "b200")
    whole = load_published(folder).figures
    path = shutil.copytree(folder, tmp_path / "b200") / "figures.csv"
    text = path.read_bytes()
    for length in range(0, len(text), 7):
        path.write_bytes(text[:length])
        try:
            rest = load_published(path.parent).figures
        except RunFormatError:
            continue
        assert rest == whole[: len(rest)] or [each.label for each in rest] == [
            each.label for each in whole[: len(rest)]
        ]
