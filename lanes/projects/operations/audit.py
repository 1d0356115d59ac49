"""The audit: who changed what."""

from datetime import datetime

from lanes.projects.models import AuditEntry, Project

SYSTEM = "system"
"""The actor of what somebody did with the server's own command line."""


def record_audit(  # noqa: PLR0913 - one argument for each column
    project: Project | None,
    *,
    actor: str,
    action: str,
    subject: str,
    before: object = None,
    after: object = None,
    at: datetime,
) -> AuditEntry:
    """Write down who changed what, in the transaction of the change."""
    return AuditEntry.objects.create(
        project=project,
        actor=actor[:200],
        action=action,
        subject=subject[:300],
        before=before,
        after=after,
        at=at,
    )
