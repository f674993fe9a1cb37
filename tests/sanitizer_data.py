"""What compute-sanitizer says, in the form that its manual and its users' logs show; and a program that says it."""

import stat
from pathlib import Path

DATA = Path(__file__).parent / "data" / "sanitizer"
HELP = (
    "--tool arg --log-file arg --print-limit arg --launch-timeout arg --padding arg --racecheck-report arg "
    "--initcheck-address-space arg"
)
TOOLS = ("memcheck", "synccheck", "initcheck", "racecheck")
CLEAN = (DATA / "clean.txt").read_text()

# `$tool` is the tool, `$log` its log, `$task` the worker's task, and `$result` what the worker leaves once it launched.
READ = """
for task; do :; done
echo "$@" >> "$folder/arguments"
while [ $# -gt 0 ]; do
  [ "$1" = --tool ] && tool=$2
  [ "$1" = --log-file ] && log=$2
  shift
done
result=$(sed -n 's/^ "result": "\\(.*\\)",$/\\1/p' "$task")
"""
LAUNCHES = 'cp "$folder/$tool.txt" "$log"; echo launched > "$result"'


def said(name, kernel="planted"):
    """A recorded text; its kernel has another name if asked for."""
    return (DATA / f"{name}.txt").read_text().replace("planted(", f"{kernel}(").replace("planted<", f"{kernel}<")


def fake_sanitizer(folder, body=LAUNCHES, help_text=HELP, **reports):
    """A program `compute-sanitizer` in a folder: a shell script with a report of each tool, clean by default."""
    for tool in TOOLS:
        (folder / f"{tool}.txt").write_text(reports.get(tool, CLEAN))
    path = folder / "compute-sanitizer"
    path.write_text(
        f'#!/bin/sh\nfolder="{folder}"\nif [ "$1" = --help ]; then echo "{help_text}"; exit 0; fi\n{READ}\n{body}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def commands(folder):
    """The command lines that it was started with."""
    return [line.split() for line in (folder / "arguments").read_text().splitlines()]
