"""What `verify --sequences` prints: the worst of each gate, and a program that fails, to be run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.model.status import GateResult, Status
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.verbs import options
from gdnbench.verbs.progress import watch
from gdnbench.verify.sequences import USUAL, SequencesVerdict, verify_sequences
from gdnbench.wording import plural


def _verdict(gate: GateResult) -> Text:
    return Text("pass", style="green") if gate.passed else Text("FAIL", style="bold red")


_COLUMNS: tuple[Column[GateResult], ...] = (
    Column("gate", lambda gate: gate.gate, " "),
    Column("worst", lambda gate: gate.worst, " ", lambda gate: f"{gate.worst:.3g}", right=True),
    Column("limit", lambda gate: gate.limit, " ", lambda gate: f"of {gate.limit:g}", drop=1),
    Column("passed", lambda gate: gate.passed, " ", _verdict),
    Column("event", lambda gate: gate.scenario if gate.worst else "", " ", drop=2, style="dim", rest=True),
    Column("where", lambda gate: gate.where if gate.worst else ""),
)


def check_sequences(names: Sequence[str], params: Mapping[str, Any]) -> ExitCode:
    """Runs and prints a program on a family of kernels, by the verb's parameters; gives the exit code."""
    with watch(quiet=params["quiet"]) as observer:
        verdict = verify_sequences(
            load_catalog(library=params["library"]),
            options.joined(names).split(","),
            shape=options.sizes(params["shape"]),
            sequences=params["sequences"],
            profile=options.joined(params["profile"]),
            seed=params["seed"],
            step_limit_s=params["step_limit"],
            gpu=select_gpu(params["gpu"], list_gpus()),
            observer=observer,
            warm=not params["fresh"],
        )
    print_sequences(verdict, json=params["json"], csv=params["csv"])
    return verdict.exit_code


def print_sequences(verdict: SequencesVerdict, *, json: bool, csv: bool) -> None:
    """Prints the outcome of a program; JSON and CSV have a row for each gate, JSON the program beside them."""
    replayed = verdict.replayed
    gates = Table(_COLUMNS, replayed.gates, title=", ".join(verdict.kernels), headed=False)
    document = {
        "kernels": list(verdict.kernels),
        "device": verdict.device,
        "interpreted": verdict.interpreted,
        "profile": verdict.profile,
        "seed": verdict.seed,
        "events": verdict.events,
        "status": replayed.status.value,
        "reason": replayed.reason,
        "program": replayed.program,
        "gates": gates.records(),
    }
    answer = Answer(
        tables=[gates], document=lambda: document, text=lambda _: _text(verdict, gates), next=_next_words(verdict)
    )
    print_answer(answer, json=json, csv=csv)


def _text(verdict: SequencesVerdict, gates: Table[GateResult]) -> Iterator[Block]:
    yield gates
    replayed, made = verdict.replayed, plural(verdict.events, "event")
    where = "in an interpreter" if verdict.interpreted else f"on {verdict.device}"
    if replayed.status is Status.OK:
        yield ""
        yield Note(f"{made}: all hold {where}; seed {verdict.seed}")
    elif not replayed.status.is_failure:
        yield Note(f"not checked: {replayed.reason}", "caution")
    else:
        events = replayed.program.split()
        shrunk = f", shrunk from {verdict.events}" if verdict.events > len(events) else ""
        yield Padding(Text(f"{replayed.status}: {replayed.reason}", style="red"), (0, 0, 0, 1), expand=False)
        yield ""
        yield Note(f"{replayed.program}: event {len(events)} fails{shrunk}, {where}; seed {verdict.seed}")


def _next_words(verdict: SequencesVerdict) -> list[str]:
    """Returns the command that runs a program that failed again, else one for another seed or what can be done."""
    replayed, words = verdict.replayed, ["gdnbench", "verify", ",".join(verdict.kernels)]
    words += [word for term in verdict.shape.split() for word in ("--shape", term)]
    words += ["--profile", verdict.profile] if verdict.profile else []
    if replayed.status.is_failure:
        return [*words, "--seed", str(verdict.seed), "--sequences", replayed.program]
    return [*words, "--sequences", USUAL] if replayed.status is Status.OK else ["gdnbench", "doctor"]
