"""`make crash`: kill web server and worker again and again under load; nothing with a receipt may be lost.

Lanes send runs as fast as they are let; programs of the installation are killed with -9 at random
moments and started again. Then every receipt that a lane holds is asked for: its row, the bytes of
its object and their digest, its items, and its runs as the API gives them. Ends with 1 if any is lost.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import django

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.settings"
    django.setup()

from tests.bench.installation import Installation
from tests.bench.losses import Checked, check
from tests.bench.senders import Kept, Sender
from tests.programs.processes import descendants, wait_for
from tests.programs.server import Server

LANES = 4
_LONGEST_PAUSE_SECONDS = 0.6
_RECEIPTS_BETWEEN = LANES
"""A kill comes under load: so many receipts were given since the one before."""
_PATIENCE_SECONDS = 90
QUICK = {"EVALHUB_SWEEP_SECONDS": "3"}
"""The worker has something to do most of the time, too."""


class Victim(NamedTuple):
    """What can be killed: how often it is chosen, whether it is at work now, and how it dies."""

    weight: int
    is_ready: Callable[[], bool]
    kill: Callable[[], None]


def victims(house: Installation) -> dict[str, Victim]:
    """Return what is killed, by name."""
    web, worker = house.web, house.worker
    return {
        # Its master starts another, as it does when the kernel runs out of memory.
        "the process that serves requests": Victim(
            6, lambda: bool(_serving(web)), lambda: _kill_serving(web)
        ),
        "the web server": Victim(2, web.is_ready, lambda: _replace(web)),
        "the worker": Victim(3, worker.is_ready, lambda: _replace(worker)),
        "the web server and the worker": Victim(
            1, lambda: web.is_ready() and worker.is_ready(), lambda: _replace(web, worker)
        ),
    }


def _serving(web: Server) -> list[int]:
    return [one.pid for one in descendants(web.process.pid)]


def _kill_serving(web: Server) -> None:
    for pid in _serving(web):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _replace(*programs: Server) -> None:
    for program in programs:
        program.kill()
    for program in programs:
        program.launch()


def crash(
    house: Installation, senders: list[Sender], *, kills: int, minutes: float, chance: random.Random
) -> dict[str, int]:
    """Kill so many times, or so long, while the lanes send; return how often each victim was hit."""
    choices, killed = victims(house), dict.fromkeys(victims(house), 0)
    until = time.monotonic() + 60 * minutes
    for number in range(1, kills + 1):
        if time.monotonic() > until:
            break
        _wait_for_load(house, senders)
        time.sleep(chance.uniform(0, _LONGEST_PAUSE_SECONDS))
        ready = [name for name, victim in choices.items() if victim.is_ready()]
        if not ready:
            raise RuntimeError("Nothing is there that could be killed.")
        (name,) = chance.choices(ready, weights=[choices[one].weight for one in ready])
        choices[name].kill()
        killed[name] += 1
        print(f"\r{number} of {kills} kills", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return killed


def _wait_for_load(house: Installation, senders: list[Sender]) -> None:
    before = _receipts(senders)

    def is_loaded() -> bool:
        for sender in senders:
            sender.raise_failure()
        for program in (house.web, house.worker):
            if not program.is_running:
                # As whatever looks after services does: it could not start, or has ended by itself.
                program.launch()
        return _receipts(senders) >= before + _RECEIPTS_BETWEEN

    if not wait_for(is_loaded, _PATIENCE_SECONDS):
        raise RuntimeError(
            f"No receipts came for {_PATIENCE_SECONDS} s; lanes: {[one.trouble for one in senders]};"
            f" web {'runs' if house.web.is_running else 'has ended'} and said:"
            f" {house.web.said[-2000:]}"
        )


def _receipts(senders: list[Sender]) -> int:
    return sum(len(sender.kept) for sender in senders)


class Outcome(NamedTuple):
    """How it went."""

    killed: Mapping[str, int]
    kept: list[Kept]
    checked: Checked
    seconds: float

    def document(self) -> dict[str, object]:
        checked = self.checked
        return {
            "killed": dict(self.killed),
            "seconds": self.seconds,
            "receipts": checked.receipts,
            "runs": checked.runs,
            "bytes": checked.size_bytes,
            "lost": checked.losses,
        }


def crashed(
    house: Installation, *, kills: int, seed: int, folder: Path, minutes: float = 10
) -> Outcome:
    """Send, kill, stop sending, and look for every receipt."""
    began = time.monotonic()
    senders = [Sender(house, folder, number=number) for number in range(1, LANES + 1)]
    for sender in senders:
        sender.start()
    try:
        chance = random.Random(seed)  # noqa: S311 - no secret
        killed = crash(house, senders, kills=kills, minutes=minutes, chance=chance)
        house.recover()
        for program in (house.web, house.worker):
            program.wait_until_ready()
        _wait_for_load(house, senders)
    finally:
        for sender in senders:
            sender.stop()
    for sender in senders:
        sender.raise_failure()
    kept = [one for sender in senders for one in sender.kept]
    return Outcome(killed, kept, check(house, kept), time.monotonic() - began)


def _print(outcome: Outcome, *, seed: int, options: argparse.Namespace) -> None:
    checked, kills = outcome.checked, sum(outcome.killed.values())
    short = "" if kills == options.kills else f" (not {options.kills}: the time was up)"
    print(f"{options.store}, seed {seed}: {kills} kills{short} in {outcome.seconds:.0f} s")
    for name, count in outcome.killed.items():
        print(f"  {name}: {count}")
    print(f"{checked.receipts} receipts of {checked.runs} runs, {checked.size_bytes:,} bytes")
    for loss in checked.losses[:20]:
        print(f"  lost: {loss}")
    print(f"{len(checked.losses)} lost")


def main() -> int:
    """Kill, check, and say what was lost."""
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10, help="after which it kills no more")
    parser.add_argument("--seed", type=int, help="of the moments and the victims")
    parser.add_argument(
        "--store",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="SQLite and a directory, or PostgreSQL and an S3",
    )
    parser.add_argument("--data", type=Path, help="a folder on the disk that is to be used")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    is_postgres = options.store == "postgres"
    if options.data is not None:
        options.data.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="evalhub-crash-", dir=options.data))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        house = Installation(folder / "house", postgres=is_postgres, s3=is_postgres, settings=QUICK)
        stack.enter_context(house.standing())
        (folder / "spool").mkdir()
        print(f"{options.store}, seed {seed}", file=sys.stderr)
        outcome = crashed(
            house,
            kills=options.kills,
            seed=seed,
            folder=folder / "spool",
            minutes=options.minutes,
        )
    if options.json:
        print(json.dumps({"seed": seed, "store": options.store, **outcome.document()}, indent=1))
    else:
        _print(outcome, seed=seed, options=options)
    return 1 if outcome.checked.losses else 0


if __name__ == "__main__":
    sys.exit(main())
