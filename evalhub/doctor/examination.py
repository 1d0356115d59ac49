"""Everything that is looked at, in the order in which it is told."""

from collections.abc import Callable, Iterator
from datetime import datetime

from evalhub.doctor import configuration, database, machine, outside, work
from evalhub.doctor.findings import Finding, Level, warning


def findings(*, clock: Callable[[], datetime]) -> Iterator[Finding]:
    """Look at everything and yield what was found, as soon as it is."""
    yield from configuration.findings()
    yield from machine.static_files()
    yield from machine.time_zones()
    yield from machine.disks()
    looked = database.look(clock=clock)
    yield from looked.findings
    yield from outside.object_store()
    of_broker = list(work.broker())
    yield from of_broker
    yield from outside.public_address()
    if not looked.is_usable:
        yield warning(
            "everything else",
            "The worker, GitHub, mail and the channels of notices were not looked at.",
            fix="Mend the database first.",
        )
        return
    is_broker_there = all(finding.level is Level.OK for finding in of_broker)
    yield from work.sweeps(at=clock(), is_broker_there=is_broker_there)
    yield from outside.object_store_faults(at=clock())
    yield from outside.credentials_of_github(clock=clock)
    yield from outside.issuer_of_identities()
    yield from outside.mail()
    yield from outside.failing_channels()
