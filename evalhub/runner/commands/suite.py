"""`evalhub suite`: the scenarios that the base branch registers."""

import argparse
from pathlib import Path

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.suite import Suite
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.documents import read_document
from evalhub.runner.errors import Exit
from evalhub.runner.options import add_command, wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    put = add_command(commands, "put", purpose="register a version of a suite (maintainer)")
    put.add_argument("file", type=Path, metavar="FILE", help="the suite, JSON or YAML")
    put.add_argument("--project", required=True, metavar="OWNER/NAME")
    put.set_defaults(handler=put_suite)


def put_suite(options: argparse.Namespace) -> int:
    """Check a suite file, send it, and say its digest."""
    suite = read_document(options.file, Suite, what="suite")
    with connected(options) as store:
        answer = store.put_suite(options.project, canonical_bytes(suite.document))
    if wants_json(options):
        say_json(answer)
    else:
        count = len(suite.model.scenarios)
        say(f"Suite {suite.model.name} with {count} scenarios is registered: {suite.digest}")
    return Exit.GOOD
