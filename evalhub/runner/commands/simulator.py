"""`evalhub simulator serve`: a world for whoever writes an agent."""

import argparse
from argparse import REMAINDER
from importlib import import_module

from evalhub.runner.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    parser.usage = "evalhub simulator serve [--host HOST] [--port PORT] [--seed SEED]"
    parser.add_argument("action", choices=("serve",), help="serve a seeded world over HTTP")
    parser.add_argument("flags", nargs=REMAINDER, help="see `evalhub simulator serve --help`")
    parser.set_defaults(handler=serve_world)


def serve_world(options: argparse.Namespace) -> int:
    """Serve a world until the process ends; its own flags are the simulator's."""
    try:
        # The web framework is an extra that a lane without a simulator does not install.
        server = import_module("evalhub.runner.simulator.server")
    except ModuleNotFoundError as error:
        raise InputError(
            f"The simulator needs {error.name}; install it with: pip install 'evalhub[simulator]'."
        ) from None
    return int(server.main(options.flags))
