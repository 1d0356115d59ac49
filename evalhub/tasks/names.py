"""Every task by name, so that the asker need not import it."""

from enum import StrEnum


class TaskName(StrEnum):
    """A task that is asked for by name, by a room below it or by beat."""

    CONCLUDE_PLAN = "gates.conclude_plan"
    """Arguments: plan_id. Computes and stores the conclusion, then delivers the check."""
    REFRESH_CHECK = "gates.refresh_check"
    """Arguments: plan_id. Brings the check of a plan's commit up to date and delivers it."""
    SEND_NOTICES = "lanes.send_notices"
    """Arguments: channel_id. Sends what an e-mail, webhook or Slack channel owes."""
    SEND_ISSUE_NOTICES = "gates.send_issue_notices"
    """Arguments: channel_id. Adds what a rolling issue on GitHub lacks."""
    SWEEP_CONCLUSIONS = "gates.sweep_conclusions"
    SWEEP_CHECKS = "gates.sweep_checks"
    SWEEP_ATTEMPTS = "lanes.sweep_attempts"
    SWEEP_SCHEDULES = "lanes.sweep_schedules"
    SWEEP_BUDGETS = "lanes.sweep_budgets"
    SWEEP_NOTICES = "lanes.sweep_notices"
    SWEEP_ISSUE_NOTICES = "gates.sweep_issue_notices"
    SWEEP_RECEIPTS = "evidence.sweep_receipts"
    SWEEP_DOCUMENTS = "evidence.sweep_documents"
    SWEEP_SECRETS = "evidence.sweep_secrets"
    SWEEP_STORAGE = "evidence.sweep_storage"
    SWEEP_REMOVALS = "evidence.sweep_removals"
    SWEEP_PINS = "gates.sweep_pins"
    SWEEP_ORPHANS = "evidence.sweep_orphans"


SWEEPS = (
    TaskName.SWEEP_CONCLUSIONS,
    TaskName.SWEEP_CHECKS,
    TaskName.SWEEP_ATTEMPTS,
    TaskName.SWEEP_SCHEDULES,
    TaskName.SWEEP_BUDGETS,
    TaskName.SWEEP_NOTICES,
    TaskName.SWEEP_ISSUE_NOTICES,
    TaskName.SWEEP_RECEIPTS,
    TaskName.SWEEP_DOCUMENTS,
    TaskName.SWEEP_SECRETS,
    TaskName.SWEEP_STORAGE,
    TaskName.SWEEP_REMOVALS,
    TaskName.SWEEP_PINS,
    TaskName.SWEEP_ORPHANS,
)
"""Asked for by beat every few seconds: each finds what a lost message left undone.

Each is made with `evalhub.tasks.sweeps.sweep`, so that it leaves a sign of life.
"""
