"""The finder names a Chromium that was seen to work, or says in one sentence that there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import find_chromium


def _found(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, find_chromium.__file__],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.browser
def test_named_path_starts() -> None:
    answer = _found()

    assert answer.returncode == 0
    path = answer.stdout.strip()
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    assert "Chrom" in version.stdout


def test_program_that_shows_no_page_is_no_browser(tmp_path: Path) -> None:
    answer = _found(CHROMIUM="/bin/true", PATH="/nonexistent", HOME=str(tmp_path))

    assert answer.returncode == 1
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert "install the package `chromium`" in answer.stderr
