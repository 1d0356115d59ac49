"""Find a Chromium that works, and print its path: `python tests/browser/find_chromium.py [--install]`.

Works means: it was started without a screen and gave back a page. With `--install` one is looked
for further away: Playwright's own download, then Debian's package where that may be installed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAGE = "data:text/html,<p>it works</p>"


def working_chromium() -> Path | None:
    """Return the first Chromium of this machine that works."""
    return next((path for path in candidates() if _works(path)), None)


def installed_chromium() -> Path | None:
    """Install a Chromium and return it; None if nothing that was tried led to one that works."""
    playwright = [sys.executable, "-m", "playwright"]
    apt = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium"]
    attempts = [[[*playwright, "install", "chromium"]]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        attempts += [
            [["apt-get", "update", "-q"], apt],
            # Where that package is a snap: the libraries that Playwright's download lacks.
            [[*playwright, "install-deps", "chromium"]],
        ]
    for commands in attempts:
        # `all` stops at the first that fails; what the ones before it left may do all the same.
        all(_succeeds(command) for command in commands)
        found = working_chromium()
        if found is not None:
            return found
    return None


def candidates() -> Iterable[Path]:
    """Yield what may be a Chromium, the named one first."""
    named = os.environ.get("CHROMIUM")
    if named:
        yield Path(named)
    for name in NAMES:
        found = shutil.which(name)
        if found:
            yield Path(found)
    yield from _downloaded()


def _downloaded() -> list[Path]:
    """Return Playwright's downloads, the newest first."""
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    downloads = Path(folder) if folder else Path.home() / ".cache/ms-playwright"
    found = downloads.glob("chromium-*/chrome-linux*/chrome")
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _works(path: Path) -> bool:
    with tempfile.TemporaryDirectory() as profile:
        command = [str(path), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", PAGE]
        try:
            answer = subprocess.run(
                command, capture_output=True, check=False, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return answer.returncode == 0 and "it works" in answer.stdout


def _succeeds(command: list[str]) -> bool:
    """Run an installer; what it says goes to standard error, its failure is only noted."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        answer = subprocess.run(
            command, check=False, stdout=sys.stderr, env=environment, timeout=1800
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def main(arguments: list[str]) -> int:
    found = working_chromium()
    if found is None and arguments == ["--install"]:
        found = installed_chromium()
    if found is None:
        sys.stderr.write(
            "No Chromium works here: install the package `chromium`, or name one in CHROMIUM.\n"
        )
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
