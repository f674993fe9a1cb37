"""A client of `gdnbench mcp` for tests: the protocol's own, with the real server in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from committed import EVIDENCE, ROOT
from faults import ADVERSARIAL, FORKING, python_path
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

MOST_BYTES = 4096
RUN = "20261123-014131-h200-decode-hopper"
REPORTS = tuple(
    f"profiles/ncu/decode-{name}-h200-B1-qk4_v8.csv" for name in ("v1/20261121-212731", "v4/20261121-212745")
)


@dataclass(frozen=True)
class Answer:
    """A result as the client has it."""

    is_error: bool
    document: dict[str, Any]
    text: str


@dataclass(frozen=True)
class Client:
    """A session with a server; calls wait for their results.

    Attributes:
        session: the protocol's.
        portal: to the thread where it lives.
        project: the project's folder.
    """

    session: ClientSession
    portal: BlockingPortal
    project: Path

    def call(self, tool: str, heard: list[tuple[float, float | None, str]] | None = None, **arguments: Any) -> Answer:
        """Calls a tool; what every result must be is checked here."""

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            if heard is not None:
                heard.append((progress, total, message or ""))

        async def call() -> Any:
            return await self.session.call_tool(tool, arguments, progress_callback=hear)

        return checked(self.portal.call(call))


def checked(result: Any) -> Answer:
    """A result, of which every one is small, the same as text and as structure, and says its exit code."""
    [content] = result.content
    assert len(content.text.encode()) <= MOST_BYTES
    assert json.loads(content.text) == result.structured_content
    assert {"exit_code", "meaning"} <= result.structured_content.keys()
    assert "Traceback" not in content.text
    return Answer(bool(result.is_error), result.structured_content, content.text)


def make_project(folder: Path) -> Path:
    """A project with some of the committed runs and profiles: copies, for links that lead out are refused."""
    for run in (RUN, "published"):
        left_out = shutil.ignore_patterns("*.parquet", "nvbench*")
        shutil.copytree(EVIDENCE / run, folder / "results" / run, ignore=left_out)
    shutil.copytree(ROOT / "profiles" / "ncu", folder / "profiles" / "ncu")
    (folder / "tmp").mkdir()
    return folder


def kernel_folders() -> str:
    """Kernels that misbehave, beside the bundled ones."""
    return os.pathsep.join(map(str, (ADVERSARIAL / name for name in ("cpu", "both"))))


def environment(project: Path, *, forks: bool) -> dict[str, str]:
    """The server's, with a lock of its own."""
    return {
        "PYTHONPATH": python_path(ROOT, ADVERSARIAL, *(FORKING if forks else ())),
        "GDNBENCH_KERNELS": kernel_folders(),
        "TMPDIR": str(project / "tmp"),
        "OMP_NUM_THREADS": "1",
    }


def server_command(project: Path) -> list[str]:
    """What a client starts."""
    return [sys.executable, "-m", "gdnbench", "mcp", "--project", str(project)]


@contextmanager
def connected(project: Path, *, forks: bool = True) -> Iterator[Client]:
    """A session with a server that begins and ends with the block, and whose commands fork their workers."""
    program, *arguments = server_command(project)
    # The whole environment: by itself the protocol's client hands on a few variables, and not where workers are forked.
    inherited = {**os.environ, **environment(project, forks=forks)}
    parameters = StdioServerParameters(command=program, args=arguments, env=inherited)

    @asynccontextmanager
    async def session():
        async with stdio_client(parameters) as streams, ClientSession(*streams) as begun:
            await begun.initialize()
            yield begun

    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        yield Client(stack.enter_context(portal.wrap_async_context_manager(session())), portal, project)
