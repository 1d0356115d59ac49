"""What is common to the tests of the doctor: how a finding is looked for."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from evalhub.doctor.findings import Finding, Level
from tests.programs.server import ROOT

OK, WARNING, WRONG = Level.OK, Level.WARNING, Level.WRONG


def only(findings: Iterable[Finding], level: Level) -> Finding:
    """Return the one finding of a level, and see that no other is worse than ok."""
    found = list(findings)
    (one,) = [finding for finding in found if finding.level is level]
    worse = [f for f in found if f is not one and f.level is not Level.OK]
    assert worse == [], found
    assert one.sentence.endswith((".", "?"))
    assert bool(one.fix) == (level is not Level.OK)
    return one


def told(environment: Mapping[str, str]) -> tuple[int, list[Finding]]:
    """Run `manage.py doctor --json` for real; return its code and what it found."""
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    findings = [
        Finding(one["subject"], Level(one["level"]), one["sentence"], one["fix"])
        for one in document["findings"]
    ]
    assert document["worst"] in {finding.level for finding in findings}
    return done.returncode, findings


def about(subject: str, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.subject == subject]


def sentences(findings: Iterable[Finding], level: Level) -> str:
    return "\n".join(finding.sentence for finding in findings if finding.level is level)
