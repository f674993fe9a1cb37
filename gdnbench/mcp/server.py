"""The server: lists the tools, makes each call a command, and answers with a digest of its JSON."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO, cast

import anyio
from anyio import CapacityLimiter, Lock, create_task_group
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
    jsonrpc_message_adapter,
)
from mcp.types import Tool as ListedTool
from pydantic import ValidationError

from gdnbench import __version__
from gdnbench.codec import SchemaError, convert
from gdnbench.errors import ExitCode, GdnbenchError, UsageError
from gdnbench.mcp.command import Commands, Progress
from gdnbench.mcp.measuring_tools import Ncu, Ready, Run, ScoreTool, SweepTool, Verify
from gdnbench.mcp.reading_tools import Compare, Explain, Inspect, Ledger, Lint, List, Show, Try
from gdnbench.mcp.result import Ended, describe, is_wrong_request, warnings_of
from gdnbench.mcp.tool import Tool, description_of, schema_of
from gdnbench.render.digest import Digest, fit, to_text

TOOLS: dict[str, type[Tool]] = {
    tool.name: tool
    for tool in (
        List,
        Lint,
        Verify,
        Inspect,
        ScoreTool,
        Run,
        SweepTool,
        Ncu,
        Explain,
        Compare,
        Show,
        Try,
        Ledger,
        Ready,
    )
}

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
speedup holds the launch, kernel_speedup does not. Compare times within one run alone; across runs use `compare`.
exit_code and meaning are in every result; cut says what was left out, and how to get it."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)

_AT_ONCE = 4  # number of concurrent commands that only read


class ToolsServer:
    """The tools, and the queue of their calls."""

    def __init__(self) -> None:
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
            lines = _requests()
            async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (read, write):
                lines.answer = write.send
                await server.run(read, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    async def _end_at_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                await self._commands.stop()
                # The thread that reads stdin blocks in a call that nothing ends.
                os._exit(ExitCode.INTERRUPTED if number == signal.SIGINT else 128 + number)

    async def _list(self, _context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()])

    async def _call(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(code=INVALID_PARAMS, message=f"no tool {params.name!r}; there are {', '.join(TOOLS)}")
        try:
            tool = _tool_of(params.name, params.arguments or {})
            words = tool.line()
        except GdnbenchError as error:
            return _refused(error)
        progress = Progress(_reporter(context))
        async with self._at_its_turn(tool, progress), create_task_group() as tasks:
            tasks.start_soon(progress.keep_telling)
            try:
                ended = await self._commands.run(words, progress.heard)
            except OSError as error:
                ended = Ended(ExitCode.ENVIRONMENT, "", f"error: no command can be started: {error.strerror or error}")
            tasks.cancel_scope.cancel()
        return _answer(tool, ended)

    @asynccontextmanager
    async def _at_its_turn(self, tool: Tool, progress: Progress) -> AsyncIterator[None]:
        if not tool.measures:
            await self._commands.settle()
            async with self._readers:
                yield
            return
        if self._turn.locked():
            await progress.say("another call is measuring; waiting for it to finish")
        async with self._turn:
            yield


class _Lines:
    """A client's lines without lone surrogates, to which no answer could be encoded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = anyio.wrap_file(stream)
        self.answer: Callable[[SessionMessage], Awaitable[None]] | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yields the messages; answers other lines here, for which the protocol's library stays silent."""
        async for line in self._stream:
            whole = with_whole_characters(line)
            error = _fault_of(whole)
            if error is None:
                yield whole
            elif self.answer and whole.strip():
                await self.answer(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))


def _fault_of(line: str) -> ErrorData | None:
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        told = error.errors(include_url=False)[0]
        if told["type"] == "json_invalid":
            return ErrorData(code=PARSE_ERROR, message=f"the line is no JSON: {told['msg']}")
        return ErrorData(code=INVALID_REQUEST, message="the line is no message of JSON-RPC 2.0")
    return None


def with_whole_characters(line: str) -> str:
    r"""Replaces each escape of a lone surrogate in JSON, such as `\ud800`, by U+FFFD."""
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["lone"] else found[0], line)


def _requests() -> _Lines:
    """Returns stdin for the protocol alone: a handler, or what it starts, reads an empty stdin."""
    wire, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    # The reading thread may still be in a call when the server ends.
    stream = os.fdopen(wire, encoding="utf-8", errors="replace", closefd=False)
    return _Lines(stream)


def _listed(tool: type[Tool]) -> ListedTool:
    hints = ToolAnnotations(
        read_only_hint=not (tool.measures or tool.writes), destructive_hint=False, open_world_hint=False
    )
    return ListedTool(name=tool.name, description=description_of(tool), input_schema=schema_of(tool), annotations=hints)


def _tool_of(name: str, arguments: Mapping[str, Any]) -> Tool:
    tool = TOOLS[name]
    try:
        return convert(dict(arguments), tool)
    except SchemaError as error:
        known = ", ".join(schema_of(tool)["properties"])
        raise UsageError(f"{name}: {error}", f"its parameters are {known}") from error


def _refused(error: GdnbenchError) -> CallToolResult:
    told = {"exit_code": int(error.exit_code), "meaning": error.exit_code.meaning, "error": error.message}
    return _result({**told, **({"hint": error.hint} if error.hint else {})}, Digest({}), is_error=True)


def _answer(tool: Tool, ended: Ended) -> CallToolResult:
    told = describe(ended, tool.meanings)
    digest = Digest({})
    if ended.output.strip():
        try:
            digest = tool.read(ended.output)
        except UsageError as error:
            return _refused(error)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # Of another version, or cut off: pass the output on unread.
            told["error"] = f"the output of `{tool.name}` is not as expected: {type(error).__name__}: {error}"
            digest = Digest({"output": ended.output})
    return _result(told, digest, warnings_of(ended), is_error=is_wrong_request(ended.code))


def _result(
    told: Mapping[str, Any], digest: Digest, warnings: list[str] | None = None, *, is_error: bool
) -> CallToolResult:
    document = fit(told, digest, warnings or [])
    text = TextContent(type="text", text=to_text(document))
    return CallToolResult(content=[text], structured_content=document, is_error=is_error)


def _reporter(context: Any) -> Any:
    async def report(progress: float, total: float | None, message: str) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await context.session.report_progress(progress, total, message)

    return report
