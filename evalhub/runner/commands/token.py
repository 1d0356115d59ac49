"""`evalhub token`: what scripts of a project speak with."""

import argparse
from typing import get_args

from evalhub.protocol.identity import TokenScope
from evalhub.runner.connection import connected
from evalhub.runner.console import complain, say, say_json, table
from evalhub.runner.errors import Exit
from evalhub.runner.options import add_command, wants_json

_SCOPES = get_args(TokenScope)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    create = add_command(commands, "create", purpose="make a token, shown once (maintainer)")
    _add_project(create)
    create.add_argument("name", metavar="NAME", help="for a person: who uses it, and where")
    create.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=_SCOPES,
        dest="scopes",
        metavar="SCOPE",
        help=f"what it may do; again for more: {', '.join(_SCOPES)}",
    )
    create.add_argument("--days", type=int, metavar="N", help="until it ends (default: 90)")
    create.set_defaults(handler=create_token)
    listing = add_command(commands, "list", purpose="list tokens, without their secrets")
    _add_project(listing)
    listing.set_defaults(handler=list_tokens)
    revoke = add_command(commands, "revoke", purpose="end a token at once")
    _add_project(revoke)
    revoke.add_argument("number", type=int, metavar="NUMBER", help="as `evalhub token list` has it")
    revoke.set_defaults(handler=revoke_token)


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", required=True, metavar="OWNER/NAME")


def create_token(options: argparse.Namespace) -> int:
    """Make a token and say its secret, which nothing can say again.

    The secret alone is on standard output, so that a script can put it where it belongs.
    """
    wanted = {"name": options.name, "scopes": options.scopes, "days": options.days}
    with connected(options) as store:
        made = store.make_token(options.project, wanted)
    if wants_json(options):
        say_json(made)
        return Exit.GOOD
    complain(
        f"Token {made['number']} ({', '.join(made['scopes'])}) ends {made['expires_at']}. It is shown"
        " this once:"
    )
    say(made["token"])
    return Exit.GOOD


def list_tokens(options: argparse.Namespace) -> int:
    """List the newest tokens that people made; those of lanes and CI jobs are not among them."""
    with connected(options) as store:
        answer = store.tokens(options.project)
    if wants_json(options):
        say_json(answer)
        return Exit.GOOD
    headers = ["number", "name", "begins", "may", "state", "made by", "last used", "ends"]
    rows = [
        [
            row["number"],
            row["name"],
            f"{row['prefix']}…",
            ",".join(row["scopes"]),
            row["state"],
            row["made_by"],
            row["last_used_at"],
            row["expires_at"],
        ]
        for row in answer["tokens"]
    ]
    say(table(headers, rows) if rows else f"Project {options.project} has no tokens.")
    return Exit.GOOD


def revoke_token(options: argparse.Namespace) -> int:
    """End a token; whoever uses it is refused from now on."""
    with connected(options) as store:
        store.revoke_token(options.project, options.number)
    if wants_json(options):
        say_json({"number": options.number, "state": "revoked"})
    else:
        say(f"Token {options.number} is revoked.")
    return Exit.GOOD
