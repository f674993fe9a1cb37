"""An ssh server on this machine, as a process of its own: `python ssh_server.py FOLDER` serves until it is killed.

FOLDER has `host` and `user.pub`, keys; `port` is written there once it listens. Commands run in a shell of this user,
with FOLDER/home as their home folder.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import asyncssh


async def serve(folder):
    async def execute(session):
        home = folder / "home"
        libraries = {name: value for name, value in os.environ.items() if name.startswith("LD_LIBRARY_")}
        environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder),
            "OMP_NUM_THREADS": "1",
            **libraries,
        }
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", session.command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=home, env=environment
        )
        await session.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr, send_eof=False)
        code = await shell.wait()
        await session.stdout.drain()
        session.exit(code & 255)

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(folder / "host")],
        authorized_client_keys=str(folder / "user.pub"),
        process_factory=execute,
        encoding=None,
    )
    ready = folder / "port.new"
    ready.write_text(str(server.sockets[0].getsockname()[1]))
    ready.rename(folder / "port")
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
