"""What was removed of a plan's evidence, and what that lets a conclusion come to."""

from evidence.store import queries as store
from gates.verdicts.queries.findings import Code, Effect, Finding, finding
from lanes.plans.models import Plan


def removed_findings(plan: Plan) -> list[Finding]:
    """Return what nobody can recompute or judge again, since its bytes were removed.

    Scores stay in rows, so the verdicts are the same; that their records are gone keeps a conclusion
    from being green, whoever had them removed. Transcripts that went because of their age are no
    finding: a project decides for how long it reads them.
    """
    removed = store.removed_records(plan)
    return [
        *finding(
            Code.PURGED,
            Effect.ACTION_REQUIRED,
            removed.records,
            "Records were removed from the store: what was made of them cannot be recomputed.",
        ),
        *finding(
            Code.PURGED,
            Effect.NOTE,
            removed.purged,
            "Transcripts, logs or files were purged: nobody can read or judge them again.",
        ),
    ]
