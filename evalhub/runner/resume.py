"""`evalhub push SPOOL`: send what a lane could not, from its spool, on any machine."""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.runner.client import Store
from evalhub.runner.connection import patient
from evalhub.runner.delivery import Delivery, DeliveryReport
from evalhub.runner.harvest import harvest_or_loss
from evalhub.runner.holding import held
from evalhub.runner.lane_log import fresh_log_members
from evalhub.runner.members import Member
from evalhub.runner.session import AttemptSession
from evalhub.runner.spool import Spool
from evalhub.runner.stopping import Stop
from evalhub.runner.streaming import cut, growths, taken_run


def push_spool(
    store: Store, folder: Path, *, seconds: float, stop: Stop, report: Callable[[str], None]
) -> DeliveryReport:
    """Send everything in a spool that has no receipt yet, and seal its attempt.

    Tries for `seconds` while the store is away. Safe to repeat: the same bytes get the same receipt.

    Raises:
        InputError: if the folder is no spool, or a living lane holds it.
        RunnerError: if the store gives no token for the attempt.
    """
    with ExitStack() as stack:
        stack.enter_context(held(folder))
        spool = Spool.opened(folder)
        session = patient(
            lambda: AttemptSession.resumed(
                store, spool.state.attempt, opened_at=spool.state.opened_at
            ),
            seconds=seconds,
            report=report,
            is_over=stop.is_by_signal,
        )
        cut_the_rest(spool, at=session.stamp(), report=report)
        delivery = Delivery(spool, session, stop=stop, report=report)
        stack.callback(delivery.close)
        return delivery.finish(seconds=seconds, on_tick=lambda: None)


def cut_the_rest(spool: Spool, *, at: datetime, report: Callable[[str], None]) -> None:
    """Cut what a lane left on disk when it died: ended runs whole, begun ones as far as they came."""
    for key in spool.lane.run_keys:
        ended, folder = spool.ended(key), spool.run_folder(key)
        if ended is None and not folder.is_dir():
            continue
        for found in growths(spool, key, folder, but_the_last=True):
            cut(spool, found, at=at)
        rest = harvest_or_loss(folder, key, ended=ended, taken=taken_run(spool, key))
        if cut(spool, rest, at=at):
            for sentence in rest.sentences:
                report(sentence)
    spool.cut("bulk", fresh_log_members(spool, is_over=True), at=at)
    draft = spool.remembered_environment()
    if draft is not None:
        path = format_path(ItemPath(ItemKind.ENVIRONMENT))
        spool.cut("record", [Member(path, draft)], at=at)
    spool.cut("record", [spool.redactions()], at=at)
