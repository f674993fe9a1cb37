"""A kernel of a test's own, whose code changes, with profiles and runs of it from before and after."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from decode_workloads import decode_at
from run_data import case, measured, store

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.new import make_kernel
from gdnbench.model.status import Role
from gdnbench.profile.ncu.store import read_profiles, write_profiles

RECORDED = Path(__file__).parent / "data" / "ncu" / "decode-v4-B1.csv.gz"
OTHER = "0123456789abcdef"  # the hash of no kernel


@dataclass(frozen=True)
class Mine:
    """The folders that `gdnbench explain` reads, and what is in them of `decode-mine`, a copy of decode-v4."""

    home: Path
    kernels: Path

    @property
    def profiles(self):
        return self.home / "profiles"

    @property
    def results(self):
        return self.home / "results"

    @property
    def folder(self):
        return self.kernels / "decode" / "mine"

    @property
    def catalog(self):
        return load_catalog([*default_roots(), self.kernels])

    def source(self, name="decode-mine"):
        """The hash of a kernel's sources as they are now."""
        return self.catalog.entries[name].source_hash()

    def change(self):
        """Changes the kernel's code, as its author would: with a line in it."""
        path = self.folder / "kernel.cu"
        path.write_text(path.read_text() + "// a line more\n")

    def profiled(self, day, source=None, gpu="h200"):
        """Stores a profile of a day of January; of the code as it is now unless told otherwise, of none if empty."""
        folder = self.profiles / "ncu" / "decode-mine"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"202601{day:02}-030405-{gpu}-B1-qk4_v8.csv"
        source = self.source() if source is None else source
        write_profiles(path, [replace(one, label="decode-mine", source=source) for one in read_profiles(RECORDED)])
        return path

    def timed(self, day, sources=None, time_us=4.6, **peers_us):
        """Stores a run of a day of January; each kernel is of its code as it is now unless `sources` tell otherwise."""
        run_id = f"202601{day:02}-030405-h200-decode"
        folder = self.results / run_id
        folder.mkdir(parents=True)
        times = {"decode-mine": time_us, **{name.replace("_", "-"): time for name, time in peers_us.items()}}
        rows = [self._row(name, time) for name, time in times.items()]
        known = {name: self.source(name) for name in [*times, "decode-floor-copy", "decode-floor-empty"]}
        floors = [
            measured(case("decode-floor-copy", Role.FLOOR, WARPS=8), 4.0),
            measured(case("decode-floor-empty", Role.FLOOR, WARPS=8), 2.7),
        ]
        known = {**known, **(sources or {})}
        told = {name: source for name, source in known.items() if source}
        store(folder, [*rows, *floors], run_id=run_id, sources=told)
        return run_id

    def _row(self, name, time_us):
        entry = self.catalog.entries[name]
        params = entry.at(entry.default, decode_at()).params
        return measured(case(name, **params), time_us)


def make_mine(home, kernels, monkeypatch):
    """`decode-mine` in a folder of kernels that the catalog knows; no GPU is here.

    Args:
        home: an empty folder for profiles and runs.
        kernels: the folder of kernels, made anew. Builds are known by the path of their source, so tests that give the
            same one compile once.
        monkeypatch: of pytest.
    """
    shutil.rmtree(kernels, ignore_errors=True)
    make_kernel("decode-mine", "decode-v4", kernels)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(kernels))
    monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", tuple)
    mine = Mine(home, kernels)
    mine.profiles.mkdir()
    mine.results.mkdir()
    return mine
