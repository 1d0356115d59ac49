"""`evalhub pool`: the judge budgets of a project."""

import argparse

from evalhub.protocol.canonical import canonical_bytes
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.options import add_command, wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    put = add_command(commands, "put", purpose="create or change a pool (maintainer)")
    put.add_argument("name", metavar="NAME")
    put.add_argument("--project", required=True, metavar="OWNER/NAME")
    put.add_argument("--limit-microusd", type=int, required=True, metavar="N")
    put.add_argument("--credential-fingerprint", metavar="DIGEST")
    put.set_defaults(handler=put_pool)


def put_pool(options: argparse.Namespace) -> int:
    """Set the limit of a pool."""
    if options.limit_microusd < 0:
        raise InputError(f"--limit-microusd was {options.limit_microusd}; expected at least 0.")
    body = {
        "limit_microusd": options.limit_microusd,
        "credential_fingerprint": options.credential_fingerprint,
    }
    with connected(options) as store:
        answer = store.put_pool(options.project, options.name, canonical_bytes(body))
    if wants_json(options):
        say_json(answer)
    else:
        say(f"Pool {options.name} has a limit of {options.limit_microusd} micro-dollars.")
    return Exit.GOOD
