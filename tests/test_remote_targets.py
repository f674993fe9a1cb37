"""Targets: what `gdnbench.toml` may say, and where a command goes by `--gpu` and `--on`."""

import json
from pathlib import Path

import pytest
from faults import answer

from gdnbench.errors import GpuNotFoundError, UnknownNameError, UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.remote.forward import choose_target, requested_models
from gdnbench.remote.targets import load_targets, read_targets, target_named, user_config

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
    write(user_config().parent, farm("lab", "h200"))
    gpus.append(Gpu(0, "NVIDIA H200", "GPU-1", (9, 0)))
    assert choose_target("h200") is None
    gpus.clear()
    for spelling in ("h200", "H200", " h200 "):
        assert choose_target(spelling).name == "lab"


def test_several_targets_or_none_are_an_error_that_lists_them(here, gpus):
    write(user_config().parent, farm("one", "b200") + farm("two", "h200", "b200"))
    write(here, farm("three", "h200", "b200"))
    with pytest.raises(UsageError, match=r"2 targets have a GPU 'b200': one \(b200\), two \(h200, b200\)") as several:
        choose_target("b200")
    assert "--on one" in several.value.hint
    with pytest.raises(GpuNotFoundError, match=r"three \(h200, b200\)") as none:
        choose_target("rtx9999")
    assert 'host = "HOST"' in none.value.hint


def test_the_gpu_there_must_be_what_was_asked_for_or_what_the_target_is_said_to_have(here):
    write(here, farm("lab", "h200", "b200"))
    lab = target_named("lab")
    assert requested_models(lab, "b200") == ["b200"]
    assert requested_models(lab, "auto") == requested_models(lab, "0") == ["h200", "b200"]
    assert requested_models(lab, "cpu") == []


def test_a_list_has_targets_of_both_files_and_says_how_to_name_one(here):
    none = answer("targets")
    assert "no targets" in none.out
    assert 'by [targets.lab] with kind = "ssh"' in " ".join(none.out.split())
    write(user_config().parent, farm("old", "a100"))
    write(here, farm("new", "h200", "b200"))
    rows = json.loads(answer("targets", "--json").out)
    assert [(row["name"], row["kind"], row["host"], row["gpus"]) for row in rows] == [
        ("old", "ssh", "old.example", ["a100"]),
        ("new", "ssh", "new.example", ["h200", "b200"]),
    ]


def test_on_does_not_go_with_files_that_are_here_nor_with_a_target_that_is_not(here):
    write(here, farm("lab", "h200"))
    for option, words in (("--import", ("ncu", "a.csv")), ("--ready", ("verify", "decode-v4"))):
        done = answer(*words, option, "--on", "lab")
        assert done.code == 2
        assert f"{option} does not go with --on" in done.err
    unknown = answer("run", "--on", "nowhere")
    assert unknown.code == 2
    assert "there is no target nowhere" in unknown.err


# A project's file does not choose where a command runs.

HOSTILE = '[targets.lab]\nkind = "local"\ngpus = ["h200"]\npython = "./owned"\n'


@pytest.mark.parametrize("deep", ["", "below", "below/further"])
def test_a_file_that_came_with_a_project_is_not_used_unasked(here, gpus, monkeypatch, deep):
    path = write(here, HOSTILE)
    (here / deep).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here / deep)
    with pytest.raises(UsageError, match="which may not be yours") as refused:
        choose_target("h200")
    assert str(path) in refused.value.message
    assert "--on lab" in refused.value.hint
    assert target_named("lab").target.python == "./owned"  # whoever names it means it


def test_a_run_by_its_gpu_alone_executes_nothing_of_a_project_s_file(here, gpus):
    owned = here / "was-run"
    (here / "owned").write_text(f"#!/bin/sh\ntouch {owned}\n")
    (here / "owned").chmod(0o755)
    write(here, HOSTILE)
    done = answer("run", "decode-reference", "--gpu", "h200", "--quick", folder=here)
    assert done.code == 2
    assert "--on lab" in done.err
    assert not owned.exists()


def test_a_project_s_target_does_not_take_the_place_of_one_s_own(here, gpus):
    write(user_config().parent, farm("lab", "h200"))
    write(here, HOSTILE.replace("lab", "other"))
    assert choose_target("h200").name == "lab"
    write(here, HOSTILE)  # of that name, which `--on` would mean
    with pytest.raises(UsageError, match="which may not be yours"):
        choose_target("h200")


def test_who_names_a_target_is_told_what_a_project_s_file_runs(here, gpus):
    write(here, HOSTILE)
    told = target_named("lab").command_note
    assert told == f": ./owned, as {here / 'gdnbench.toml'} says"
