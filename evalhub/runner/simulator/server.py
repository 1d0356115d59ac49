"""Serve one world: `evalhub simulator serve`, or the child process of a lane."""

import argparse
import json
import os
import secrets
import socket
import sys

import uvicorn

from evalhub.runner.simulator.app import Simulator, build_app
from evalhub.runner.simulator.death import die_with_parent

KEY_VARIABLE = "EVALHUB_SIMULATOR_KEY"


def main(argv: list[str]) -> int:
    """Serve a world until the process is ended; print one JSON line when it can be reached."""
    parser = argparse.ArgumentParser(
        prog="evalhub simulator serve", description="Serve one seeded payments world over HTTP."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parent", type=int, help="end when the process with this id ends")
    options = parser.parse_args(argv)
    if options.parent is not None and not die_with_parent(options.parent):
        return 1
    try:
        serve(options.host, options.port, options.seed)
    except OSError as error:
        sys.stderr.write(
            f"The simulator cannot listen on {options.host}:{options.port}: {error.strerror}. "
            "Choose another --port, or 0 for a free one.\n"
        )
        return 2
    return 0


def serve(host: str, port: int, seed: int) -> None:
    """Serve the world of `seed` and print its address and key as one JSON line.

    The key comes from EVALHUB_SIMULATOR_KEY, or is made anew for this process.

    Raises:
        OSError: if the address cannot be bound.
    """
    simulator = Simulator(seed=seed, key=os.environ.get(KEY_VARIABLE) or secrets.token_urlsafe(24))
    listener = socket.create_server((host, port), backlog=128)
    # asyncio sets this itself only on sockets that it made; without it each answer waits 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # From here on connections queue in the kernel, so the address may be told before the loop runs.
    ready = {
        "url": f"http://{host}:{listener.getsockname()[1]}",
        "key": simulator.key,
        **simulator.state(),
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        build_app(simulator),
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
