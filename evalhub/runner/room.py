"""Room on the spool's disk: where it is short, a lane waits and says so instead of ending."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from evalhub.runner.errors import DiskFullError

# What a usual run leaves, so that the last of the room is not begun by a run which cannot use it.
_LEAST_FREE_BYTES = 4 * 2**20
_LOOK_AGAIN_SECONDS = 1.0


class Room:
    """The room in one spool's folder. Safe to use from several threads.

    `deadline` is on the monotonic clock: nobody waits longer, and nobody once `is_over` says so.
    """

    def __init__(
        self,
        folder: Path,
        *,
        deadline: float,
        report: Callable[[str], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._deadline = deadline
        self._report = report
        self._is_over = is_over
        self._guard = threading.Lock()
        self._is_short = False

    def wait_for_a_run(self) -> None:
        """Return once there is room for a run, or nobody may wait any longer."""
        while self._free_bytes() < _LEAST_FREE_BYTES and self._may_wait():
            self._say_short(f"The disk of {self._folder} is full.")
            time.sleep(_LOOK_AGAIN_SECONDS)
        self._say_enough()

    def keep(self, write: Callable[[], object]) -> None:
        """Write; where the disk is full, again and again until there is room.

        Raises:
            DiskFullError: if there is none while one may wait.
            RunnerError: what `write` itself raises.
        """
        while True:
            try:
                write()
            except DiskFullError as error:
                if not self._may_wait():
                    raise
                self._say_short(str(error))
                time.sleep(_LOOK_AGAIN_SECONDS)
            else:
                self._say_enough()
                return

    def try_once(self, write: Callable[[], object]) -> None:
        """Write; where the disk is full, say so and leave it to a later time."""
        try:
            write()
        except DiskFullError as error:
            self._say_short(str(error))

    def _may_wait(self) -> bool:
        return time.monotonic() < self._deadline and not self._is_over()

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._folder).free

    def _say_short(self, reason: str) -> None:
        with self._guard:
            if self._is_short:
                return
            self._is_short = True
        self._report(
            f"{reason} The lane waits for room: no further run is started, and nothing that was "
            "written is lost. Make room there (delete what is not of this lane)."
        )

    def _say_enough(self) -> None:
        with self._guard:
            if not self._is_short or self._free_bytes() < _LEAST_FREE_BYTES:
                return
            self._is_short = False
        self._report(f"There is room in {self._folder} again; the lane goes on.")
