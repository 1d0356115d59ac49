"""A restore brings nothing back that was removed on purpose, whenever the backup read what."""

from pathlib import Path

import pytest
from django.utils import timezone

from evalhub.backup.making import make_backup
from evalhub.backup.manifest import OBJECTS
from evalhub.backup.restoring import check_backup, restore_backup
from evalhub.protocol.tombstones import TOMBSTONE, Cause
from evidence.store import queries
from evidence.store.models import Item, Removal, Segment
from evidence.store.operations import purging, removals, tombstones
from evidence.store.operations.check_store import Looked, store_findings
from evidence.store.operations.findings import Scope
from evidence.store.queries import EvidenceRemovedError
from evidence.store.storage import object_store
from lanes.plans.models import Attempt
from tests.evalhub.backup.conftest import Installed, Kind
from tests.evidence.factories import make_run
from tests.lanes.factories import make_attempt, make_plan

pytestmark = pytest.mark.slow

HERE = Kind("sqlite", "directory", has_tables=True)
ELSEWHERE = Kind("sqlite", "directory")


def order(attempt: Attempt) -> Removal:
    """Order an attempt's bytes away, and leave it to a sweep."""
    target = purging.one_attempt(attempt.lane.plan, attempt.key)
    why = removals.Why(Cause.PURGE, target.scope, target.subject, "user:maintainer", "A name.")
    removal = removals.order_removal(target.plan, target.stock, why, at=timezone.now())
    assert removal is not None
    return removal


def expect_nothing_back(*, undone: int = 0) -> None:
    """Expect that nothing of the purge can be read, and that the sweep finds so much to do."""
    for item in Item.objects.all():
        with pytest.raises(EvidenceRemovedError):
            queries.item_bytes(item)
    assert removals.sweep_removals(at=timezone.now()) == undone
    assert [key for key in object_store().keys("") if key.endswith(".zip")] == []
    assert [str(f) for f in store_findings(Scope(), looked=Looked())] == []


def zips(folder: Path) -> int:
    return len(list((folder / OBJECTS).rglob("*.zip")))


def test_backup_drops_the_copies_of_what_was_purged_since(
    installed: Installed, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    with installed(HERE):
        attempt = make_attempt(make_plan())
        make_run(attempt)
        make_backup(folder, at=timezone.now())
        assert zips(folder) == 2
        order(attempt)
        removals.sweep_removals(at=timezone.now())

        made = make_backup(folder, at=timezone.now())

    assert (made.manifest.faults, zips(folder)) == ({}, 0)
    check_backup(folder)
    with installed(ELSEWHERE):
        restore_backup(folder)
        expect_nothing_back()


def test_bytes_that_are_about_to_go_are_not_restored(installed: Installed, tmp_path: Path) -> None:
    """The tombstone is there and its bytes are still beside it, and the rows know of the order."""
    folder = tmp_path / "backup"
    with installed(HERE):
        attempt = make_attempt(make_plan())
        make_run(attempt)
        removal = order(attempt)
        for row in Segment.objects.all():
            removals.write_tombstone(row, tombstones.order_of(removal))

        made = make_backup(folder, at=timezone.now())

    assert (made.manifest.faults, zips(folder)) == ({}, 0)
    with installed(ELSEWHERE):
        restore_backup(folder)
        expect_nothing_back(undone=2)


def test_rows_that_were_read_before_the_purge_hear_of_it_when_restored(
    installed: Installed, tmp_path: Path
) -> None:
    """As if the purge had come between the rows and the objects of one backup."""
    folder = tmp_path / "backup"
    with installed(HERE):
        attempt = make_attempt(make_plan())
        make_run(attempt)
        removal = order(attempt)
        removals.sweep_removals(at=timezone.now())
        Segment.objects.update(removal=None, gone_at=None)
        Removal.objects.all().delete()

        made = make_backup(folder, at=timezone.now())

    assert made.manifest.faults == {}
    with installed(ELSEWHERE):
        restore_backup(folder)
        assert Removal.objects.get().key == removal.key
        expect_nothing_back(undone=2)


def test_loss_is_still_told_where_no_tombstone_lies(installed: Installed, tmp_path: Path) -> None:
    with installed(HERE):
        make_run(make_attempt(make_plan()))
        key = Segment.objects.order_by("pk").values_list("object_key", flat=True)[0]
        object_store().delete(key)

        made = make_backup(tmp_path / "backup", at=timezone.now())

    assert made.manifest.faults == {key: "absent"}
    assert not any(name.endswith(TOMBSTONE) for name in made.manifest.faults)
