"""Two installations for all tests of faults; each test leaves them as it found them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.house import OneMachine, ScatteredHouse
from tests.faults.shifted_clock import ShiftedClock, shifted_clock
from tests.faults.small_disk import small_disk


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """Return a folder for unix sockets, whose paths hold 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="evalhub-faults-") as path:
        folder = Path(path)
        # PostgreSQL runs as another user.
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def common_clock(short_folder: Path) -> ShiftedClock | None:
    return shifted_clock(short_folder / "clock")


# Not for the session: they would sweep through all tests that follow.
@pytest.fixture(scope="package")
def scattered_house(
    tmp_path_factory: pytest.TempPathFactory,
    short_folder: Path,
    common_clock: ShiftedClock | None,
) -> Iterator[ScatteredHouse]:
    with small_disk(short_folder / "database", mebibytes=256) as disk:
        folder = tmp_path_factory.mktemp("scattered")
        with ScatteredHouse(folder, common_clock, disk).standing() as house:
            yield house


@pytest.fixture
def house(scattered_house: ScatteredHouse) -> Iterator[ScatteredHouse]:
    yield scattered_house
    scattered_house.recover()


@pytest.fixture(scope="package")
def furnished_machine(
    tmp_path_factory: pytest.TempPathFactory,
    short_folder: Path,
    common_clock: ShiftedClock | None,
) -> Iterator[OneMachine]:
    with small_disk(short_folder / "machine", mebibytes=96) as disk:
        if disk is None:
            pytest.skip("This machine lets nobody mount a file system, so no disk can be full.")
        folder = tmp_path_factory.mktemp("machine")
        with OneMachine(folder, common_clock, disk).standing() as machine:
            yield machine


@pytest.fixture
def machine(furnished_machine: OneMachine) -> Iterator[OneMachine]:
    yield furnished_machine
    furnished_machine.recover()


@pytest.fixture
def clock(common_clock: ShiftedClock | None) -> ShiftedClock:
    if common_clock is None:
        pytest.skip("There is no C compiler here, so no program's clock can be set.")
    return common_clock
