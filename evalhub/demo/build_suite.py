"""Write `suite.yaml` and `stages.json` from the scenario files: `python -m evalhub.demo.build_suite`."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from evalhub.demo.judging import DEFINITIONS
from evalhub.protocol.canonical import document_digest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SUITE = FOLDER / "suite" / "suite.yaml"
STAGES = FOLDER / "stages.json"
VERSION = "2026-11-29"
_HEAD = "# Written by `python -m evalhub.demo.build_suite` from the scenario files; do not edit.\n"


def main() -> int:
    SUITE.write_text(_HEAD + yaml.safe_dump(suite_document(), sort_keys=False, width=100))
    STAGES.write_text(json.dumps(stages_document(), indent=2) + "\n")
    return 0


def scenario_files() -> list[Path]:
    return sorted((FOLDER / "suite" / "scenarios").glob("*/*.yaml"))


def suite_document() -> dict[str, Any]:
    """Return the suite that the scenario files make."""
    return {
        "schema": "evalhub.suite/1",
        "name": "payments",
        "version": VERSION,
        "scenarios": [_entry(path) for path in scenario_files()],
        "cohesive": [],
        "memory_categories": ["memory"],
    }


def stages_document() -> list[dict[str, str]]:
    """Return the fingerprint of each judge stage: the digest of its definition."""
    return [
        {
            "rubric": stage["rubric"],
            "stage": stage["stage"],
            "fingerprint": document_digest(stage["definition"]),
        }
        for stage in DEFINITIONS
    ]


def _entry(path: Path) -> dict[str, Any]:
    scenario = yaml.safe_load(path.read_text())
    return {
        "id": scenario["id"],
        "category": scenario["category"],
        "digest": document_digest(scenario),
        "artifacts": ["agent:payments-agent"],
        "tags": [],
        # A run takes about half a second, most of it the start of Python.
        "weight_minutes": 0.01,
        "file": path.relative_to(ROOT).as_posix(),
    }


if __name__ == "__main__":
    sys.exit(main())
