"""What an agent left, while another run of the lane swaps it under the lane's hands."""

import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from evalhub.protocol.plan import RunKey
from evalhub.runner import clock
from evalhub.runner.harvest import harvest
from evalhub.runner.members import LeftFile
from evalhub.runner.own_copies import in_own_copies
from evalhub.runner.redaction import Redaction
from evalhub.runner.spool import Spool
from tests.evalhub.protocol.secret_samples import GITHUB_TOKEN
from tests.evalhub.runner.test_spool import make_spool

KEY = RunKey("refund-twice", "candidate", 1)
LARGE = 2 * 2**20
FOREIGN = b"what only this machine should know"


def refuse_to_leave_out(sentence: str) -> None:
    raise AssertionError(sentence)


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parents[5] / "foreign")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def linked_folder(file: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.symlink_to(file.parents[5] / "elsewhere")


def endless(file: Path) -> None:
    os.truncate(file, 2**40)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = make_spool(tmp_path / "s", segment_bytes=2**24)
    files = spool.run_folder(KEY) / "files"
    files.mkdir(parents=True)
    (files / "note").write_bytes(b"innocent")
    (files / "other").write_bytes(b"stays")
    runs = files.parents[3]
    (runs / "foreign").write_bytes(FOREIGN)
    (runs / "elsewhere").mkdir()
    (runs / "elsewhere" / "note").write_bytes(FOREIGN)
    return spool


def note_of(spool: Spool) -> Path:
    return spool.run_folder(KEY) / "files" / "note"


def packed(spool: Spool) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for segment in spool.segments():
        with zipfile.ZipFile(segment.path) as archive:
            found |= {n.rpartition("/")[2]: archive.read(n) for n in archive.namelist()[1:]}
    return found


@pytest.mark.parametrize("swap", [link, pipe, linked_folder, endless, os.unlink])
def test_a_file_swapped_after_the_look_is_left_out(
    spool: Spool, swap: Callable[[Path], None]
) -> None:
    found = harvest(spool.run_folder(KEY), KEY, ended=None)
    swap(note_of(spool))

    # A pipe would hold the lane for good, and this test with it.
    cutting = threading.Thread(
        target=lambda: spool.cut("bulk", found.bulk, at=clock.now()), daemon=True
    )
    cutting.start()
    cutting.join(30)

    assert not cutting.is_alive()
    assert FOREIGN not in packed(spool).values()
    assert "note" not in packed(spool)
    assert any("files/note was changed" in sentence for sentence in spool.left_out)


@pytest.mark.parametrize("size", [10, LARGE])
def test_what_is_looked_through_is_what_is_packed(spool: Spool, size: int) -> None:
    note = note_of(spool)
    note.write_bytes(b"a " * (size // 2))
    found = harvest(spool.run_folder(KEY), KEY, ended=None)
    left = [member for member in found.bulk if isinstance(member, LeftFile)]
    redaction = Redaction(spool.folder, [])

    for own in in_own_copies(left, folder=spool.folder, leave_out=refuse_to_leave_out):
        note.write_bytes(GITHUB_TOKEN.encode())
        clean = redaction.cleaned(own)
        note.write_bytes(GITHUB_TOKEN.encode() * 2)
        spool.cut("bulk", clean, at=clock.now())

    assert packed(spool)["note"] == b"a " * (size // 2)


def test_a_large_file_with_a_secret_is_packed_without_it(spool: Spool) -> None:
    before = sorted(path.name for path in spool.folder.iterdir())
    note_of(spool).write_bytes(b"a " * LARGE + GITHUB_TOKEN.encode())
    found = harvest(spool.run_folder(KEY), KEY, ended=None)

    spool.cut("bulk", found.bulk, at=clock.now())

    data = packed(spool)["note"]
    assert data.startswith(b"a " * LARGE + b"[redacted:")
    assert GITHUB_TOKEN.encode() not in data
    assert {p.name for p in spool.folder.iterdir()} - set(before) == {"redactions.json"}
