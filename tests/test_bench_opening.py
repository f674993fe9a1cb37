"""What a run says of itself before anything is measured."""

import pytest
from dispatch_data import write_dispatcher

from gdnbench.bench.observer import Observer
from gdnbench.bench.opening import begin_session
from gdnbench.bench.request import Settings, make_request
from gdnbench.bench.resume import source_change
from gdnbench.catalog import default_roots, load_catalog

TABLE = '[h200.qk4_v8]\nsource = "r"\nB1 = {{ kernel = "decode-v4", WARPS = {warps} }}\n'


@pytest.fixture
def catalog_with(tmp_path):
    """Gives the bundled kernels and a dispatcher that picks decode-v4 with so many warps."""

    def load(warps):
        write_dispatcher(tmp_path / "kernels", TABLE.format(warps=warps))
        return load_catalog([default_roots()[0], tmp_path / "kernels"])

    return load


def begin(catalog, folder, kernels):
    request = make_request(catalog, "decode", kernels, axes="B=1", heads="", settings=Settings())
    return begin_session(catalog, request, None, folder, Observer()).info


def test_a_run_knows_the_sources_of_what_a_dispatcher_picked_and_its_table(catalog_with, tmp_path):
    catalog = catalog_with(warps=2)
    info = begin(catalog, tmp_path / "results", "decode-mine")
    assert {"decode-v4", "decode-mine"} <= info.sources.keys()
    assert source_change(info, catalog) == ""


def test_a_table_that_has_changed_is_told(catalog_with, tmp_path):
    info = begin(catalog_with(warps=2), tmp_path / "results", "decode-mine")
    assert source_change(info, catalog_with(warps=4)) == "decode-mine has changed"


def test_a_run_without_the_dispatcher_does_not_mind(catalog_with, tmp_path):
    info = begin(catalog_with(warps=2), tmp_path / "results", "decode-v4,decode-v4b")
    assert "decode-mine" not in info.sources
    assert source_change(info, catalog_with(warps=4)) == ""
