"""Judge money: what may be spent, what each lane was given, what was spent."""

from django.db import models

from lanes.projects.models import Project


class Pool(models.Model):
    """A judge budget behind one credential."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="pools")
    name = models.CharField(max_length=64)
    credential_fingerprint = models.CharField(max_length=71, null=True)  # noqa: DJ001 - null is "not told"
    limit_microusd = models.BigIntegerField()
    created_at = models.DateTimeField()
    folded_microusd = models.BigIntegerField(
        default=0,
        db_default=0,
        help_text="What its released sub-allocations have spent, as far as they say that it is in here.",
    )
    limit_set_at = models.DateTimeField(
        null=True, help_text="When the limit was changed last; null: with the pool."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="pool_once_per_project", fields=["project", "name"]),
            models.CheckConstraint(
                name="pool_limit_not_negative", condition=models.Q(limit_microusd__gte=0)
            ),
        ]

    def __str__(self) -> str:
        return self.name


IS_NOT_FOLDED = models.Q(released_at__isnull=True) | ~models.Q(
    spent_microusd=models.F("folded_microusd")
)
"""Selects the sub-allocations that their pool's own sum does not tell wholly."""


class SubAllocation(models.Model):
    """What one lane of one plan may spend from a pool. Open until its plan has concluded."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="allocations")
    plan = models.CharField(max_length=71)
    lane = models.CharField(max_length=64)
    limit_microusd = models.BigIntegerField()
    spent_microusd = models.BigIntegerField(
        default=0,
        help_text="Sum of the lane's ledger, kept in the transaction that settles a call.",
    )
    weighed_microusd = models.BigIntegerField(
        default=0, db_default=0, help_text="How much of what was spent the alerts have seen."
    )
    folded_microusd = models.BigIntegerField(
        default=0, db_default=0, help_text="How much of what was spent the pool's own sum holds."
    )
    opened_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="allocation_once_per_lane", fields=["plan", "lane"])
        ]
        indexes = [
            models.Index(
                name="allocation_to_weigh",
                fields=["pool"],
                condition=~models.Q(spent_microusd=models.F("weighed_microusd")),
            ),
            # All others are in their pool's own sum, so that years of plans are not added up anew.
            models.Index(name="allocation_not_folded", fields=["pool"], condition=IS_NOT_FOLDED),
        ]

    def __str__(self) -> str:
        return f"{self.lane}: {self.limit_microusd}"


class LedgerEntry(models.Model):
    """One settled judge call. Append-only; `call_id` settles once within a project.

    `cost_microusd` is null when the cost is not known; such calls are counted, never taken as free.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="ledger")
    plan = models.CharField(max_length=71)
    lane = models.CharField(max_length=64)
    attempt = models.CharField(max_length=64)
    call_id = models.UUIDField()
    rubric = models.CharField(max_length=64)
    stage = models.CharField(max_length=12)
    cost_microusd = models.BigIntegerField(null=True)
    cost_source = models.CharField(max_length=12)
    conflicting_microusd = models.BigIntegerField(
        null=True, help_text="Another cost that was later claimed for the same call."
    )
    settled_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="call_settles_once", fields=["project", "call_id"])
        ]
        indexes = [models.Index(name="ledger_of_plan", fields=["plan", "lane"])]

    def __str__(self) -> str:
        return f"{self.call_id}: {self.cost_microusd}"


class UnknownCost(models.Model):
    """Judge lines whose cost could not be read: a broken line, or an item with a wrong digest."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="unknown_costs")
    plan = models.CharField(max_length=71, db_index=True)
    lane = models.CharField(max_length=64)
    attempt = models.CharField(max_length=64)
    path = models.CharField(max_length=1000)
    lines = models.PositiveIntegerField()
    noted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.lines} of {self.path}"
