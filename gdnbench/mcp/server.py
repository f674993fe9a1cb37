"""The server: lists the tools, makes each call a command, and answers with a digest of its JSON."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TextIO, cast

import anyio
from anyio import CancelScope, CapacityLimiter, Lock, create_task_group, move_on_after, sleep, sleep_forever, to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as ListedTool

from gdnbench import __version__
from gdnbench.errors import ExitCode, GdnbenchError, UsageError
from gdnbench.mcp.tool import BoundTool, Call, VerbParameters
from gdnbench.mcp.tools import TOOLS
from gdnbench.process import events
from gdnbench.process.child import Child
from gdnbench.process.command import describe_exit
from gdnbench.process.worker import take_stdin
from gdnbench.render.digest import Digest, fit, to_text

STOP_TIMEOUT_S = 60.0
"""Seconds that a command has after Ctrl-C to write what is finished; from another machine it is downloaded first."""

_POLL_S = 0.02
_ENVIRONMENT = {"PYTHONUTF8": "1", "NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "10000"}


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, negative for a signal, stdout, stderr, and notes besides its progress."""

    code: int
    output: str = ""
    errors: str = ""
    notes: Sequence[str] = ()


class Commands:
    """The running commands."""

    def __init__(self) -> None:
        self._running: set[Child] = set()

    async def run(self, arguments: Sequence[str], observer: events.Observer) -> Ended:
        """Runs a command to its end, or stops it as Ctrl-C does if cancelled; `observer` runs in another thread."""
        texts: dict[str, list[str]] = {"stdout": [], "stderr": [], "notes": []}

        def observe(event: events.CommandEvent) -> None:
            match event:
                case events.TextPrinted(stream, text):
                    texts[stream].append(text)
                case events.NoteMade(text):
                    texts["notes"].append(text)
            observer(event)

        child = Child(arguments, observe, environment=_ENVIRONMENT, sends_events=True)
        self._running.add(child)
        try:
            async with create_task_group() as tasks:
                tasks.start_soon(_stop_when_cancelled, child)
                code = await to_thread.run_sync(child.follow)  # returns at the command's end, cancelled or not
                tasks.cancel_scope.cancel()
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(child.close)
            self._running.discard(child)
        return Ended(code, "".join(texts["stdout"]), "".join(texts["stderr"]), tuple(texts["notes"]))

    async def settle(self) -> None:
        """Waits until stopped commands have written their results: the next call may need them."""
        while any(child.is_interrupted for child in self._running):
            await sleep(_POLL_S)

    async def stop(self) -> None:
        """Stops all commands and waits until the callers of `run` have seen them end."""
        for child in self._running:
            child.interrupt()
        with move_on_after(STOP_TIMEOUT_S):
            while self._running:
                await sleep(_POLL_S)


async def _stop_when_cancelled(child: Child) -> None:
    try:
        await sleep_forever()
    finally:
        child.interrupt()
        with move_on_after(STOP_TIMEOUT_S, shield=True):
            while not child.has_ended:
                await sleep(_POLL_S)
        if not child.has_ended:
            with CancelScope(shield=True):
                await to_thread.run_sync(child.kill)


INTERVAL_S = 0.5
"""Seconds between notifications; a new phase, a failure and a note are sent at once."""

_SILENCE_S = 10.0  # after which the client gets a sign of life: some clients give up on silent servers
_LITTLE = 1e-3
Report = Callable[[float, float | None, str], Awaitable[None]]


class Progress:
    """Counts units of work over all phases of a command; reports progress, the total as far as known, and a message.

    The protocol requires each notification's progress to grow: if no unit was finished, it grows by a little.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._done = self._phase_done = self._phase_total = 0
        self._phase = ""
        self._step = ""
        self._has_changed = False
        self._urgent: deque[str] = deque()
        self._sent, self._sent_s = 0.0, float("-inf")

    def observe(self, event: events.CommandEvent) -> None:
        """Takes an event of the command, from any thread."""
        match event:
            case events.PhaseBegun(phase, total):
                self._phase, self._phase_total, self._phase_done, self._step = phase, total, 0, ""
                self._urgent.append(self._message)
            case events.StepChanged(text) | events.RaceStatus(text):
                self._step = text
            case events.UnitDone():
                self._done += 1
                self._phase_done += 1
            case events.NoteMade(text):
                self._urgent.append(text)
            case events.CaseChecked(label, workload, status, reason) if status.is_failure:
                self._urgent.append(f"{status}: {label} {workload}: {reason.partition(chr(10))[0]}")
            case _:
                return
        self._has_changed = True

    async def keep_reporting(self) -> None:
        """Notifies the client, for ever: at once of what is urgent, else at intervals, and that work goes on."""
        begun_s = time.monotonic()
        while True:
            await self.report_now()
            silent_s = time.monotonic() - self._sent_s
            if self._has_changed and silent_s > INTERVAL_S:
                await self._send(self._message)
            elif min(silent_s, time.monotonic() - begun_s) > _SILENCE_S:
                await self._send(f"{self._message or 'at work'} ({time.monotonic() - begun_s:.0f} s)")
            await sleep(_POLL_S)

    async def report_now(self) -> None:
        """Sends what is urgent."""
        while self._urgent:
            await self._send(self._urgent.popleft())

    async def _send(self, message: str) -> None:
        self._has_changed = False
        self._sent = max(float(self._done), round(self._sent + _LITTLE, 3))
        self._sent_s = time.monotonic()
        left = max(0, self._phase_total - self._phase_done)
        await self._report(self._sent, self._done + left if left else None, message)

    @property
    def _message(self) -> str:
        count = f" {self._phase_done} of {self._phase_total}" if self._phase_total else ""
        phase = f"{events.PHASES.get(self._phase, self._phase)}{count}"
        return ": ".join(filter(None, [phase, self._step]))


INSTRUCTIONS = """\
gdnbench benchmarks GPU kernels that run for microseconds. Kernels are folders under kernels/, which you edit yourself.
`list` has the kernels with their ideas and params. Copy the nearest one, and change one thing at a time.
`verify` first: a kernel whose numbers are wrong gets no time. It needs no GPU, and neither does `inspect`.
`ledger` has what was tried, and `try` writes down what a change should do.
`score` after each change: one verdict against the kernel to beat. `run` measures several and keeps the run for `show`.
`inspect` tells registers, spills and dependent loads, and with `against` what a change did to the code.
`explain` ranks what takes the time and says what to try next: from hardware counters, after `ncu`.
The whole interval of a speedup decides, by a margin of 0.5 %: faster or slower lies outside the margin, same inside.
unclear is no win and no loss: measure more rounds, or drop the change. Never tell a ratio without its interval.
vs_baseline holds the launch, kernel_vs_baseline does not. Compare times within one run; across runs use `compare`.
inputs_ratio is how much longer a kernel takes with inputs_worst than with inputs_best: measure it at such a `profile`.
exit_code and meaning are in every result; cut says what was left out, and how to get it."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)

_AT_ONCE = 4  # number of concurrent commands that only read


class ToolsServer:
    """The tools, with the parameters of the verbs, and the queue of their calls."""

    def __init__(self, parameters_of: VerbParameters) -> None:
        self._tools = bind_tools(parameters_of)
        self._commands = Commands()
        self._turn = Lock()
        self._readers = CapacityLimiter(_AT_ONCE)

    async def serve(self) -> None:
        """Serves one client on stdin and stdout until stdin ends; a signal stops running commands and this process."""
        server: Server[Any] = Server(
            "gdnbench",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        async with create_task_group() as tasks:
            tasks.start_soon(self._end_at_signal)
            # The reading thread may still be in a call when the server ends.
            lines = _Lines(os.fdopen(take_stdin(), encoding="utf-8", errors="replace", closefd=False))
            async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    async def _end_at_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                await self._commands.stop()
                # The thread that reads stdin blocks in a call that nothing ends.
                os._exit(ExitCode.INTERRUPTED if number == signal.SIGINT else 128 + number)

    async def _list(self, _context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in self._tools.values()])

    async def _call(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in self._tools:
            known = ", ".join(self._tools)
            raise MCPError(code=INVALID_PARAMS, message=f"no tool {params.name!r}; there are {known}")
        try:
            call = self._tools[params.name].call(params.arguments or {})
        except GdnbenchError as error:
            return refused(error)
        progress = Progress(_reporter(context))
        async with self._at_its_turn(call, progress), create_task_group() as tasks:
            tasks.start_soon(progress.keep_reporting)
            try:
                ended = await self._commands.run(call.command, progress.observe)
            except OSError as error:
                ended = Ended(ExitCode.ENVIRONMENT, "", f"error: no command can be started: {error.strerror or error}")
            await progress.report_now()
            tasks.cancel_scope.cancel()
        return answer(call, ended)

    @asynccontextmanager
    async def _at_its_turn(self, call: Call, progress: Progress) -> AsyncIterator[None]:
        if not call.measures:
            await self._commands.settle()
            async with self._readers:
                yield
            return
        if self._turn.locked():
            progress.observe(events.NoteMade("another call is measuring; waiting for it to finish"))
            await progress.report_now()
        async with self._turn:
            yield


class _Lines:
    """A client's lines without lone surrogates, to which no answer could be encoded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = anyio.wrap_file(stream)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yields the messages."""
        async for line in self._stream:
            yield _ESCAPE.sub(lambda match: r"\ufffd" if match["lone"] else match[0], line)


def bind_tools(parameters_of: VerbParameters) -> dict[str, BoundTool]:
    """Returns the tools by name."""
    return {tool.name: tool.bind(parameters_of) for tool in TOOLS}


def _listed(bound: BoundTool) -> ListedTool:
    tool = bound.tool
    hints = ToolAnnotations(
        read_only_hint=not (tool.measures or tool.writes), destructive_hint=False, open_world_hint=False
    )
    return ListedTool(name=tool.name, description=tool.description, input_schema=bound.schema, annotations=hints)


_LONGEST = 1500  # characters of a text
_ERROR = re.compile(r"^error: (?P<message>.*?)(?:^hint:  (?P<hint>.*))?\Z", re.MULTILINE | re.DOTALL)
_FRAME = re.compile("[\u2500-\u257f]+")  # drawn around a message on a wrong option
_WARNING = re.compile(r"^warning: (.*)$", re.MULTILINE)


def describe(ended: Ended, meanings: Mapping[int, str]) -> dict[str, Any]:
    """Returns the fields of every result; `meanings` are of exit codes where they differ from `ExitCode`."""
    known = {**{code.value: code.meaning for code in ExitCode}, **meanings}
    head: dict[str, Any] = {
        "exit_code": ended.code,
        "meaning": known.get(ended.code) or f"it ended with {describe_exit(ended.code)}",
    }
    match = _ERROR.search(ended.errors)
    if match:
        head["error"] = match["message"].strip()
        if match["hint"]:
            head["hint"] = match["hint"].strip()
    elif ended.code and not ended.output.strip():
        head["error"] = " ".join(_FRAME.sub(" ", ended.errors).split())[-_LONGEST:] or "it printed nothing"
    return head


def warnings_of(ended: Ended) -> list[str]:
    """Returns the command's warnings and notes."""
    return [*_WARNING.findall(ended.errors), *ended.notes]


def is_wrong_request(code: int) -> bool:
    """Whether a call failed by its request or by gdnbench itself; a kernel's failure is an answer."""
    return code in {ExitCode.USAGE, ExitCode.CRASHED} or code < 0


def refused(error: GdnbenchError) -> CallToolResult:
    """Returns the result of a call that gdnbench refuses."""
    head = {"exit_code": int(error.exit_code), "meaning": error.exit_code.meaning, "error": error.message}
    return _result({**head, **({"hint": error.hint} if error.hint else {})}, Digest({}), is_error=True)


def answer(call: Call, ended: Ended) -> CallToolResult:
    """Returns the result of a call whose command has ended."""
    head = describe(ended, call.tool.meanings)
    digest = Digest({})
    if ended.output.strip():
        try:
            digest = call.read(ended.output)
        except UsageError as error:
            return refused(error)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # Of another version, or cut off: pass the output on unread.
            head["error"] = f"the output of `{call.tool.name}` is not as expected: {type(error).__name__}: {error}"
            digest = Digest({"output": ended.output})
    return _result(head, digest, warnings_of(ended), is_error=is_wrong_request(ended.code))


def _result(
    head: Mapping[str, Any], digest: Digest, warnings: list[str] | None = None, *, is_error: bool
) -> CallToolResult:
    document = fit(head, digest, warnings or [])
    text = TextContent(type="text", text=to_text(document))
    return CallToolResult(content=[text], structured_content=document, is_error=is_error)


def _reporter(context: Any) -> Any:
    async def report(progress: float, total: float | None, message: str) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await context.session.report_progress(progress, total, message)

    return report
