"""A clock of a test's own for whole programs, which it may set while they run."""

import shutil
import struct
import subprocess
from datetime import timedelta
from pathlib import Path

SOURCE = Path(__file__).with_name("shifted_clock.c")


class ShiftedClock:
    """The time of day that programs with `environment` see: the true one, shifted by `set`.

    Made by a small library that is compiled here and preloaded into them.
    """

    def __init__(self, folder: Path, *, compiler: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / "shifted_clock.so"
        subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True
        )
        self._file = folder / "shift"
        self.set(timedelta())
        self.environment = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(self._file)}

    def set(self, shift: timedelta) -> None:
        """Have all these programs see the true time and so much more, from now on."""
        data = struct.pack("l", round(shift.total_seconds()))
        if not self._file.exists():
            self._file.write_bytes(data)
            return
        # In place: the programs have this very file in their memory.
        with self._file.open("r+b") as file:
            file.write(data)


def shifted_clock(folder: Path) -> ShiftedClock | None:
    """Return such a clock; None where there is no C compiler to make it with."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    return ShiftedClock(folder, compiler=compiler) if compiler is not None else None
