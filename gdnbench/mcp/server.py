"""The server: lists the tools, makes each call a command, and answers with a digest of its JSON."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO, cast

import anyio
from anyio import CapacityLimiter, Lock, create_task_group
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
from gdnbench.mcp.command import Commands, Progress
from gdnbench.mcp.result import Ended, describe, is_wrong_request, warnings_of
from gdnbench.mcp.tool import BoundTool, Call, Tool, VerbParameters
from gdnbench.mcp.tools import TOOLS
from gdnbench.process.events import NoteMade
from gdnbench.process.worker import take_stdin
from gdnbench.render.digest import Digest, fit, to_text

INSTRUCTIONS = """\
gdnbench benchmarks GPU kernels that run for microseconds. Kernels are folders under kernels/, which you edit yourself.
`list` has the kernels with their ideas and params. Copy the nearest one, and change one thing at a time.
`verify` first: a kernel whose numbers are wrong gets no time. It needs no GPU, and neither does `inspect`.
`lint` reads sources for known mistakes. `ledger` has what was tried, and `try` writes down what a change should do.
`score` after each change: one verdict against the kernel to beat. `run` measures several and keeps the run for `show`.
`inspect` tells registers, spills and dependent loads, and with `against` what a change did to the code.
`explain` ranks what takes the time and says what to try next: from hardware counters, after `ncu`.
The whole interval of a speedup decides, by a margin of 0.5 %: faster or slower lies outside the margin, same inside.
unclear is no win and no loss: measure more rounds, or drop the change. Never tell a ratio without its interval.
vs_baseline holds the launch, kernel_vs_baseline does not. Compare times within one run; across runs use `compare`.
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
        async with self._at_its_turn(call.tool, progress), create_task_group() as tasks:
            tasks.start_soon(progress.keep_reporting)
            try:
                ended = await self._commands.run(call.command, progress.observe)
            except OSError as error:
                ended = Ended(ExitCode.ENVIRONMENT, "", f"error: no command can be started: {error.strerror or error}")
            await progress.report_now()
            tasks.cancel_scope.cancel()
        return answer(call, ended)

    @asynccontextmanager
    async def _at_its_turn(self, tool: Tool, progress: Progress) -> AsyncIterator[None]:
        if not tool.measures:
            await self._commands.settle()
            async with self._readers:
                yield
            return
        if self._turn.locked():
            progress.observe(NoteMade("another call is measuring; waiting for it to finish"))
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
            yield with_whole_characters(line)


def with_whole_characters(line: str) -> str:
    r"""Replaces each escape of a lone surrogate in JSON, such as `\ud800`, by U+FFFD."""
    return _ESCAPE.sub(lambda match: r"\ufffd" if match["lone"] else match[0], line)


def bind_tools(parameters_of: VerbParameters) -> dict[str, BoundTool]:
    """Returns the tools by name."""
    return {tool.name: tool.bind(parameters_of) for tool in TOOLS}


def _listed(bound: BoundTool) -> ListedTool:
    tool = bound.tool
    hints = ToolAnnotations(
        read_only_hint=not (tool.measures or tool.writes), destructive_hint=False, open_world_hint=False
    )
    return ListedTool(name=tool.name, description=tool.description, input_schema=bound.schema, annotations=hints)


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
