"""How findings are told: a line each for people, or one JSON document. Works without Django's set-up."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence

from evalhub.doctor.findings import Finding, Level, wrong


def write(findings: Sequence[Finding], say: Callable[[str], object], *, as_json: bool) -> int:
    """Tell all findings and return the exit code: 1 if something is wrong."""
    text = _as_json(findings) if as_json else _as_lines(findings)
    say(f"{text}\n")
    return int(any(finding.level is Level.WRONG for finding in findings))


def of_unreadable_settings(sentences: Iterable[str], *, as_json: bool) -> int:
    """Tell of settings that keep everything else from being looked at; return the exit code."""
    findings = [
        wrong("settings", sentence, fix="Mend or unset it; nothing else was looked at.")
        for sentence in sentences
    ]
    return write(findings, sys.stdout.write, as_json=as_json)


def _as_json(findings: Sequence[Finding]) -> str:
    worst = max(findings, key=lambda finding: list(Level).index(finding.level)).level
    document = {"worst": worst, "findings": [finding._asdict() for finding in findings]}
    return json.dumps(document, indent=2)


def _as_lines(findings: Sequence[Finding]) -> str:
    width = max(len(level) for level in Level)
    lines = []
    for subject, level, sentence, fix in findings:
        lines.append(f"{level:<{width}}  {subject}: {sentence}")
        if fix:
            lines.append(f"{'':<{width}}  -> {fix}")
    return "\n".join(lines)
