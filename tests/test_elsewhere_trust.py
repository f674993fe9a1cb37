"""A project's `gdnbench.toml` chooses where a command runs only once its user has confirmed it as it is."""

import pytest
from faults import answer
from test_elsewhere_targets import farm, gpus, here, write  # noqa: F401 - fixtures

from gdnbench.elsewhere.choice import choose_target
from gdnbench.elsewhere.targets import target_named, user_config
from gdnbench.elsewhere.trust import is_trusted, trust
from gdnbench.errors import UsageError

HOSTILE = '[targets.lab]\nkind = "local"\ngpus = ["h200"]\npython = "./owned"\n'


@pytest.mark.parametrize("deep", ["", "below", "below/further"])
def test_a_file_that_came_with_a_project_is_not_used_unasked(here, gpus, monkeypatch, deep):  # noqa: F811
    path = write(here, HOSTILE)
    (here / deep).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here / deep)
    with pytest.raises(UsageError, match="you have not confirmed it") as refused:
        choose_target("h200")
    assert str(path) in refused.value.message
    assert "gdnbench targets trust" in refused.value.hint
    assert "--on lab" in refused.value.hint
    assert target_named("lab").target.python == "./owned"  # whoever names it means it


def test_a_run_by_its_gpu_alone_executes_nothing_of_an_unconfirmed_file(here, gpus):  # noqa: F811
    owned = here / "was-run"
    (here / "owned").write_text(f"#!/bin/sh\ntouch {owned}\n")
    (here / "owned").chmod(0o755)
    write(here, HOSTILE)
    done = answer("run", "decode-reference", "--gpu", "h200", "--quick", folder=here)
    assert done.code == 2
    assert "you have not confirmed it" in " ".join(done.err.split())
    assert not owned.exists()


@pytest.mark.parametrize("change", ["\n", "# a comment\n", farm("other", "b200")])
def test_a_confirmation_is_of_the_file_as_it_was(here, gpus, change):  # noqa: F811
    path = write(here, farm("lab", "h200"))
    confirmed = answer("targets", "trust", folder=here)
    assert confirmed.code == 0, confirmed.err
    assert "lab: ssh lab.example, by an environment that gdnbench makes" in confirmed.out
    assert choose_target("h200").name == "lab"
    path.write_text(path.read_text() + change)
    with pytest.raises(UsageError, match="not confirmed"):
        choose_target("h200")


def test_a_copy_elsewhere_is_another_file(here, gpus, monkeypatch):  # noqa: F811
    trust(write(here, farm("lab", "h200")))
    other = write(here.parent / "other", farm("lab", "h200"))
    monkeypatch.chdir(other.parent)
    assert not is_trusted(other)


def test_the_users_own_file_needs_no_confirmation(here, gpus):  # noqa: F811
    write(user_config().parent, farm("lab", "h200"))
    assert choose_target("h200").name == "lab"


def test_what_everybody_may_write_is_never_confirmed(here, gpus):  # noqa: F811
    path = write(here, farm("lab", "h200"))
    path.chmod(0o666)
    done = answer("targets", "trust", folder=here)
    assert done.code == 2
    assert "everybody may write it" in done.err
    path.chmod(0o644)
    trust(path)
    path.chmod(0o666)
    assert not is_trusted(path)


def test_a_target_that_the_user_adds_is_theirs_and_one_beside_a_stranger_s_is_not(here, gpus):  # noqa: F811
    assert answer("targets", "init", "lab", "--ssh", "gpu1", "--gpu", "h200", folder=here).code == 0
    assert choose_target("h200").name == "lab"
    write(here, farm("stranger", "b200"))
    assert answer("targets", "init", "lab", "--ssh", "gpu1", "--gpu", "h200", folder=here).code == 0
    assert not is_trusted(here / "gdnbench.toml")


def test_where_there_is_nothing_to_confirm_it_says_so(here):  # noqa: F811
    done = answer("targets", "trust", folder=here)
    assert done.code == 2
    assert "names no target" in done.err


def test_who_names_a_target_is_told_what_a_project_s_file_runs(here, gpus):  # noqa: F811
    write(here, HOSTILE)
    told = target_named("lab").told_command
    assert told == f": ./owned, as {here / 'gdnbench.toml'} says"
