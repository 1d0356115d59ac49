"""The flags that every command takes, and how they become a connection to the store."""

import argparse
import os
import sys
from typing import NoReturn

from evalhub.runner.console import complain
from evalhub.runner.errors import Exit
from evalhub.runner.held_token import given_token


class SentenceParser(argparse.ArgumentParser):
    """argparse that refuses in one sentence and names the help."""

    def error(self, message: str) -> NoReturn:
        complain(f"{self.prog}: {message.rstrip('.')}. See `{self.prog} --help`.")
        sys.exit(Exit.WRONG_INPUT)


def shared_options() -> argparse.ArgumentParser:
    """Return the flags of every command, to be a `parents=` of it.

    A flag that is not given leaves no attribute, so it may stand before or after the command.
    """
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("the store")
    group.add_argument("--url", help="address of the evalhub server (or EVALHUB_URL)")
    group.add_argument(
        "--token", help="better: EVALHUB_TOKEN or EVALHUB_TOKEN_FILE, which no process list shows"
    )
    group.add_argument("--json", action="store_true", help="answer with JSON")
    return parser


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, *, purpose: str
) -> argparse.ArgumentParser:
    """Add a command with the shared flags and return its parser."""
    return commands.add_parser(
        name, help=purpose, description=purpose, parents=[shared_options()], allow_abbrev=False
    )


def store_url(options: argparse.Namespace) -> str | None:
    """Return the store's address as the flag or the environment has it; None if neither does."""
    return getattr(options, "url", None) or os.environ.get("EVALHUB_URL") or None


def store_token(options: argparse.Namespace) -> str | None:
    """Return the token as the flag, the environment or its file has it; None if none does."""
    return getattr(options, "token", None) or given_token()


def wants_json(options: argparse.Namespace) -> bool:
    """Return whether the answer is for a script."""
    return bool(getattr(options, "json", False))
