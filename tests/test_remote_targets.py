"""Targets: what `gdnbench.toml` may say, and where a command goes by `--gpu` and `--on`."""

import json
from pathlib import Path

import pytest
from faults import answer

from gdnbench.errors import GpuNotFoundError, UnknownNameError, UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.remote.forward import choose_target, requested_models
from gdnbench.remote.targets import is_trusted, load_targets, read_targets, target_named, trust, user_config

LAB = '[targets.lab]\nkind = "ssh"\nhost = "gpu1"\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A project's folder; the user's own settings lie in another."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def gpus(monkeypatch):
    there: list[Gpu] = []
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda: tuple(there))
    return there


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gdnbench.toml").write_text(text)
    return folder / "gdnbench.toml"


def farm(name, *models):
    return f'[targets.{name}]\nkind = "ssh"\nhost = "{name}.example"\ngpus = {json.dumps(models)}\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[targets.lab]\nkind = 'ssh'\n", "targets.lab: Object missing required field `host`"),
        ("[targets.lab]\nhost = 'a'\n", "targets.lab.kind: it is missing"),
        ("[targets.lab]\nkind = 'cloud'\n", "targets.lab.kind: there is no kind 'cloud'"),
        (LAB + "gpu = 'h200'\n", "targets.lab: Object contains unknown field `gpu`"),
        (LAB + "gpus = 'h200'\n", "targets.lab: gpus: Expected `array`, got `str`"),
        (LAB + "workdir = 'jobs'\n", "targets.lab: workdir: Expected text of another form"),
        (LAB + "workdir = '/a:b'\n", "targets.lab: workdir: Expected text of another form"),
        (LAB + "environment = {'A B' = 'c'}\n", "targets.lab: key in environment: Expected text of another form"),
        (LAB.replace("gpu1", "-oProxyCommand=touch owned"), "targets.lab: host: Expected text of another form"),
        (LAB.replace("gpu1", "a\\nb"), "targets.lab: host: Expected text of another form"),
        ("[targets.'-x']\nkind = 'local'\n", "targets.-x: a target's name has letters"),
        ("targets = 3\n", "targets: expected tables"),
        ("[target.lab]\n", "target: there is no such key"),
        ("[targets.lab\n", "gdnbench.toml: "),
    ],
)
def test_what_does_not_fit_is_told_by_file_and_key(here, text, told):
    path = write(here, text)
    with pytest.raises(UsageError) as caught:
        read_targets(path)
    assert caught.value.message.startswith(str(path))
    assert told in caught.value.message
    assert caught.value.hint


def test_the_projects_targets_come_before_the_users_and_a_folder_above_counts(here, monkeypatch):
    write(user_config().parent, farm("lab", "h100") + farm("own", "a100"))
    write(here, farm("lab", "h200"))
    (here / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(here / "deep" / "down")
    targets = load_targets()
    assert targets["lab"].target.gpus == ["h200"]
    assert targets["own"].target.gpus == ["a100"]
    with pytest.raises(UnknownNameError, match="there are lab, own"):
        target_named("lob")


def test_a_gpu_here_comes_before_a_target_that_has_it(here, gpus):
    write(here, farm("lab", "h200"))
    gpus.append(Gpu(0, "NVIDIA H200", "GPU-1", (9, 0)))
    assert choose_target("h200") is None
    gpus.clear()
    trust(here / "gdnbench.toml")
    for spelling in ("h200", "H200", " h200 "):
        assert choose_target(spelling).name == "lab"


def test_several_targets_or_none_are_an_error_that_lists_them(here, gpus):
    write(here, farm("one", "b200") + farm("two", "h200", "b200") + farm("three", "h200"))
    with pytest.raises(UsageError, match=r"2 targets have a GPU 'b200': one \(b200\), two \(h200, b200\)") as several:
        choose_target("b200")
    assert "--on one" in several.value.hint
    with pytest.raises(GpuNotFoundError, match=r"three \(h200\)") as none:
        choose_target("rtx9999")
    assert "targets init NAME --ssh HOST --gpu rtx9999" in none.value.hint


def test_the_gpu_there_must_be_what_was_asked_for_or_what_the_target_is_said_to_have(here):
    write(here, farm("lab", "h200", "b200"))
    lab = target_named("lab")
    assert requested_models(lab, "b200") == ["b200"]
    assert requested_models(lab, "auto") == requested_models(lab, "0") == ["h200", "b200"]
    assert requested_models(lab, "cpu") == []


def test_init_writes_a_target_that_list_shows_and_keeps_what_was_there(here):
    path = write(here, "# mine\n" + farm("old", "a100"))
    added = answer("targets", "init", "lab.two", "--ssh", 'me@a "b"', "--gpu", "h200", "--gpu", "b200")
    assert added.code == 0, added.err
    assert "gdnbench targets check lab.two" in added.out
    assert path.read_text().startswith("# mine\n" + farm("old", "a100"))
    rows = json.loads(answer("targets", "--json").out)
    assert [(row["name"], row["kind"], row["host"], row["gpus"]) for row in rows] == [
        ("old", "ssh", "old.example", ["a100"]),
        ("lab.two", "ssh", 'me@a "b"', ["h200", "b200"]),
    ]
    again = answer("targets", "init", "old", "--ssh", "x")
    assert again.code == 2
    assert "has a target old" in again.err
    refused = answer("targets", "init", "new", "--ssh=-oProxyCommand=x")
    assert refused.code == 2
    assert "host: Expected text of another form" in refused.err
    own = answer("targets", "init", "new", "--ssh", "x", "--user")
    assert own.code == 0
    assert user_config().is_file()
    assert "new" in answer("targets").out


def test_on_does_not_go_with_files_that_are_here_nor_with_a_target_that_is_not(here):
    write(here, farm("lab", "h200"))
    for option, words in (("--import", ("ncu", "a.csv")), ("--ready", ("verify", "decode-v4"))):
        done = answer(*words, option, "--on", "lab")
        assert done.code == 2
        assert f"{option} does not go with --on" in done.err
    unknown = answer("run", "--on", "nowhere")
    assert unknown.code == 2
    assert "there is no target nowhere" in unknown.err


# A project's file chooses where a command runs only once its user has confirmed it as it is.

HOSTILE = '[targets.lab]\nkind = "local"\ngpus = ["h200"]\npython = "./owned"\n'


@pytest.mark.parametrize("deep", ["", "below", "below/further"])
def test_a_file_that_came_with_a_project_is_not_used_unasked(here, gpus, monkeypatch, deep):
    path = write(here, HOSTILE)
    (here / deep).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here / deep)
    with pytest.raises(UsageError, match="you have not confirmed it") as refused:
        choose_target("h200")
    assert str(path) in refused.value.message
    assert "gdnbench targets trust" in refused.value.hint
    assert "--on lab" in refused.value.hint
    assert target_named("lab").target.python == "./owned"  # whoever names it means it


def test_a_run_by_its_gpu_alone_executes_nothing_of_an_unconfirmed_file(here, gpus):
    owned = here / "was-run"
    (here / "owned").write_text(f"#!/bin/sh\ntouch {owned}\n")
    (here / "owned").chmod(0o755)
    write(here, HOSTILE)
    done = answer("run", "decode-reference", "--gpu", "h200", "--quick", folder=here)
    assert done.code == 2
    assert "you have not confirmed it" in " ".join(done.err.split())
    assert not owned.exists()


@pytest.mark.parametrize("change", ["\n", "# a comment\n", farm("other", "b200")])
def test_a_confirmation_is_of_the_file_as_it_was(here, gpus, change):
    path = write(here, farm("lab", "h200"))
    confirmed = answer("targets", "trust", folder=here)
    assert confirmed.code == 0, confirmed.err
    assert "lab: ssh lab.example, by an environment that gdnbench makes" in confirmed.out
    assert choose_target("h200").name == "lab"
    path.write_text(path.read_text() + change)
    with pytest.raises(UsageError, match="not confirmed"):
        choose_target("h200")


def test_a_copy_elsewhere_is_another_file(here, gpus, monkeypatch):
    trust(write(here, farm("lab", "h200")))
    other = write(here.parent / "other", farm("lab", "h200"))
    monkeypatch.chdir(other.parent)
    assert not is_trusted(other)


def test_the_users_own_file_needs_no_confirmation(here, gpus):
    write(user_config().parent, farm("lab", "h200"))
    assert choose_target("h200").name == "lab"


def test_what_everybody_may_write_is_never_confirmed(here, gpus):
    path = write(here, farm("lab", "h200"))
    path.chmod(0o666)
    done = answer("targets", "trust", folder=here)
    assert done.code == 2
    assert "everybody may write it" in done.err
    path.chmod(0o644)
    trust(path)
    path.chmod(0o666)
    assert not is_trusted(path)


def test_a_target_that_the_user_adds_is_theirs_and_one_beside_a_stranger_s_is_not(here, gpus):
    assert answer("targets", "init", "lab", "--ssh", "gpu1", "--gpu", "h200", folder=here).code == 0
    assert choose_target("h200").name == "lab"
    write(here, farm("stranger", "b200"))
    assert answer("targets", "init", "lab", "--ssh", "gpu1", "--gpu", "h200", folder=here).code == 0
    assert not is_trusted(here / "gdnbench.toml")


def test_where_there_is_nothing_to_confirm_it_says_so(here):
    done = answer("targets", "trust", folder=here)
    assert done.code == 2
    assert "names no target" in done.err


def test_who_names_a_target_is_told_what_a_project_s_file_runs(here, gpus):
    write(here, HOSTILE)
    told = target_named("lab").command_note
    assert told == f": ./owned, as {here / 'gdnbench.toml'} says"
