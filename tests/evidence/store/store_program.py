"""A program beside these tests that works on a store in a data directory, and can be killed at it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]


class StoreProgram(NamedTuple):
    """The module of this name in this folder; its processes share one data directory."""

    name: str
    data: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", f"tests.evidence.store.{self.name}", *arguments],
            cwd=ROOT,
            env={**os.environ, "EVALHUB_TEST_DATA": str(self.data), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self, *arguments: str) -> list[Any]:
        """Run it to its end, which is to be a good one; return what it said."""
        with self.start(*arguments) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        return [json.loads(line) for line in output.splitlines()]
