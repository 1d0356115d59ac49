"""`evalhub policy`: what a project's gate demands."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.protocol.canonical import canonical_bytes
from evalhub.protocol.faults import DocumentError, parse_document
from evalhub.protocol.policy import Policy
from evalhub.protocol.suite import Suite
from evalhub.runner import policy_words, visibility
from evalhub.runner.connection import connected
from evalhub.runner.console import say, say_json
from evalhub.runner.document_lines import Lines
from evalhub.runner.documents import (
    Loaded,
    as_document,
    parsed,
    read_document,
    read_file,
    write_document,
)
from evalhub.runner.errors import Exit, InputError
from evalhub.runner.options import add_command, wants_json

_MOST_PLANS = 10
"""So many of the newest concluded plans tell of the noise."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    put = add_command(commands, "put", purpose="register a version of the policy (maintainer)")
    put.add_argument("file", type=Path, metavar="FILE", help="the policy, YAML or JSON")
    put.add_argument("--project", required=True, metavar="OWNER/NAME")
    put.set_defaults(handler=put_policy)
    get = add_command(
        commands, "get", purpose="write the policy in force, which plans are built with"
    )
    get.add_argument("--project", required=True, metavar="OWNER/NAME")
    get.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON")
    get.set_defaults(handler=get_policy)
    check = add_command(commands, "check", purpose="say in words what a policy demands and can see")
    check.add_argument("file", type=Path, metavar="FILE", help="the policy, YAML or JSON")
    check.add_argument(
        "--suite", type=Path, metavar="FILE", help="say what it sees with this suite"
    )
    check.add_argument("--epochs", type=int, default=1, metavar="N", help="runs of each scenario")
    check.add_argument(
        "--project", metavar="OWNER/NAME", help="ask the store for the noise measured so far"
    )
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


def get_policy(options: argparse.Namespace) -> int:
    """Write the project's policy as it counts now, whatever the checkout says."""
    with connected(options) as store:
        answer = store.policy(options.project)
    policy = as_document(answer["policy"], Policy, what="policy at the store")
    write_document(options.out, policy.document)
    if wants_json(options):
        say_json({"digest": policy.digest, "out": str(options.out)})
    else:
        say(f"The policy in force is in {options.out}: {policy.digest}")
    return Exit.GOOD


class _Told(NamedTuple):
    """A policy file, where its fields stand, and what it can see (nothing without a suite)."""

    policy: Loaded[Policy]
    lines: Lines
    rows: Sequence[visibility.Visible]
    suite: Loaded[Suite] | None
    epochs: int


def check_policy(options: argparse.Namespace) -> int:
    """Say what a policy demands, what it can see, and what in it is probably not meant so.

    Raises:
        InputError: with line and field of whatever makes it invalid.
    """
    if options.epochs < 1:
        raise InputError(f"--epochs was {options.epochs}; expected at least 1.")
    if options.project is not None and options.suite is None:
        raise InputError("--suite was absent; expected it beside --project: noise is a suite's.")
    data = read_file(options.file, what="policy")
    lines = Lines(data.decode(errors="replace"))
    policy = _sound_policy(parsed(data, path=options.file, what="policy"), lines, options.file)
    suite = read_document(options.suite, Suite, what="suite") if options.suite else None
    rows: Sequence[visibility.Visible] = []
    if suite is not None:
        noise = _noise(options, suite.model.name)
        rows = visibility.visible(policy.model, suite.model, epochs=options.epochs, noise=noise)
    told = _Told(policy, lines, rows, suite, options.epochs)
    if wants_json(options):
        say_json(_document(told))
    else:
        _say(told)
    return Exit.GOOD


def _sound_policy(document: Any, lines: Lines, path: Path) -> Loaded[Policy]:
    try:
        parse_document(Policy, canonical_bytes(document))
    except DocumentError as error:
        told = [
            f"line {lines.of(fault.pointer)}: {fault}" if lines.of(fault.pointer) else str(fault)
            for fault in error.misspelt_first()
        ]
        raise InputError(f"The policy {path} is not valid:\n  " + "\n  ".join(told)) from None
    return as_document(document, Policy, what=f"policy {path}")


def _noise(options: argparse.Namespace, suite: str) -> dict[str, visibility.Noise]:
    """Return the noise that the project's newest plans measured; nothing where nobody was named."""
    if options.project is None:
        return {}
    with connected(options) as store:
        listed = store.plans({"project": options.project, "suite": suite, "limit": 50})["plans"]
        concluded = [plan["digest"] for plan in listed if plan.get("concluded_at")][:_MOST_PLANS]
        return visibility.measured_noise(
            store.conclusion(digest, wait_seconds=0).document for digest in concluded
        )


def _say(told: _Told) -> None:
    policy = told.policy.model
    say(f"The policy is valid: {told.policy.digest}")
    for name, rubric in policy.rubrics.items():
        say()
        first, *others = policy_words.rubric_words(name, rubric, policy)
        say(first)
        seen = [policy_words.visible_words(row, rubric) for row in told.rows if row.rubric == name]
        for sentence in [*others, *seen]:
            say(f"  {sentence}")
    say()
    for sentence in policy_words.policy_words(policy):
        say(sentence)
    say(_noise_words(told))
    for doubt in _doubts(told):
        say(f"DOUBTFUL {doubt['field']} (line {doubt['line']}): {doubt['sentence']}")


def _noise_words(told: _Told) -> str:
    if told.suite is None:
        return "What it can see depends on the suite: give it with --suite FILE."
    measured = {row.rubric: row.measured_plans for row in told.rows if row.measured_plans}
    means = [
        row.rubric for row in told.rows if told.policy.model.rubrics[row.rubric].kind != "tail"
    ]
    assumed = sorted({name for name in means if name not in measured})
    words = [
        f"Noise of {name}: measured over {_counted(count)}." for name, count in measured.items()
    ]
    if assumed:
        words.append(
            f"Noise of {', '.join(assumed)}: ASSUMED (a pass rate of {visibility.ASSUMED_RATE:.0%};"
            f" runs that spread over {visibility.ASSUMED_SPREAD:.0%} of the scale; half of that"
            " between scenarios). Give --project once plans are concluded, and it is measured."
        )
    return "\n".join(words)


def _counted(plans: int) -> str:
    return f"{plans} plan" if plans == 1 else f"{plans} plans"


def _doubts(told: _Told) -> list[dict[str, object]]:
    found = list(policy_words.doubts(told.policy.model, told.policy.document))
    for row in visibility.tails_too_few(told.rows, told.policy.model):
        place = f" of {row.category}" if row.category else ""
        sentence = f"{row.runs} runs{place} are too few for a tail: it stays TAIL_N."
        found.append(policy_words.Doubt(f"/rubrics/{row.rubric}", sentence))
    return [
        {"field": doubt.pointer, "line": told.lines.of(doubt.pointer), "sentence": doubt.sentence}
        for doubt in found
    ]


def _document(told: _Told) -> dict[str, object]:
    policy = told.policy.model
    return {
        "digest": told.policy.digest,
        "rubrics": [
            {
                "name": name,
                "kind": rubric.kind,
                "gate": rubric.gate,
                "words": policy_words.rubric_words(name, rubric, policy),
                "visible": [row._asdict() for row in told.rows if row.rubric == name],
            }
            for name, rubric in policy.rubrics.items()
        ],
        "words": policy_words.policy_words(policy),
        "suite": None
        if told.suite is None
        else {
            "name": told.suite.model.name,
            "digest": told.suite.digest,
            "scenarios": len(told.suite.model.scenarios),
            "epochs": told.epochs,
        },
        "doubts": _doubts(told),
    }
