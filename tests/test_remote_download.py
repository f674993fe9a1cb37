"""An environment on another machine, made for real: gigabytes are downloaded, where a variable allows it."""

import os

import pytest
from remote_data import SHORT, lab, ssh_laptop

ALLOWED = "GDNBENCH_TEST_DOWNLOADS"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(ALLOWED), reason=f"{ALLOWED} is not set: it downloads torch"),
]


def test_the_first_command_makes_an_environment_and_the_next_finds_it(tmp_path):
    with ssh_laptop(tmp_path) as (laptop, _):
        told = [line for line in lab().splitlines() if not line.startswith(("python", "environment"))]
        laptop.configure("\n".join(told))
        first = laptop("run", "decode-reference", *SHORT, "--on", "lab", "--json")
        assert first.code == 0, first.err
        assert "making an environment on lab, once" in first.err
        (environment,) = (path for path in (laptop.workdir / "env").iterdir() if path.is_dir())
        assert (environment / "bin" / "python").exists()
        second = laptop("run", "decode-reference", *SHORT, "--on", "lab", "--json")
        assert second.code == 0, second.err
        assert "making an environment" not in second.err
