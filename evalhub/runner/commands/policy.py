"""`evalhub policy`: what a project's gate demands."""

import argparse
from pathlib import Path

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.policy import Policy
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.documents import read_document
from evalhub.runner.errors import Exit
from evalhub.runner.options import add_command, wants_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    put = add_command(commands, "put", purpose="register a version of the policy (maintainer)")
    put.add_argument("file", type=Path, metavar="FILE", help="the policy, YAML or JSON")
    put.add_argument("--project", required=True, metavar="OWNER/NAME")
    put.set_defaults(handler=put_policy)
    check = add_command(commands, "check", purpose="say whether a policy file is valid")
    check.add_argument("file", type=Path, metavar="FILE", help="the policy, YAML or JSON")
    check.set_defaults(handler=check_policy)


def put_policy(options: argparse.Namespace) -> int:
    """Check a policy file, send it, and say its digest."""
    policy = read_document(options.file, Policy, what="policy")
    with connected(options) as store:
        answer = store.put_policy(options.project, canonical_bytes(policy.document))
    if wants_json(options):
        say_json(answer)
    else:
        say(f"The policy with {len(policy.model.rubrics)} rubrics is registered: {policy.digest}")
    return Exit.GOOD


def check_policy(options: argparse.Namespace) -> int:
    """Say whether a policy file is valid; its digest is what a plan names."""
    policy = read_document(options.file, Policy, what="policy")
    if wants_json(options):
        say_json({"digest": policy.digest, "rubrics": sorted(policy.model.rubrics)})
    else:
        say(f"The policy is valid: {policy.digest}")
    return Exit.GOOD
