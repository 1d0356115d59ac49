"""How far sweeps are with the object store, and what failed there."""

from django.db import models
from django.db.models import Q

from lanes.plans.models import Plan


class PlanCopy(models.Model):
    """How far the objects of a plan tell what its rows know, so that these can be made again."""

    plan = models.OneToOneField(Plan, on_delete=models.PROTECT, related_name="copy")
    seen_version = models.PositiveBigIntegerField(
        default=0, help_text="Of the plan's row when `state.json` was written; see queries."
    )
    rebuild_counted = models.PositiveIntegerField(
        null=True,
        help_text="While the rows are being made again: how many segments the plan's row has seen.",
    )

    class Meta:
        indexes = [
            models.Index(
                name="plan_being_rebuilt",
                fields=["plan"],
                condition=Q(rebuild_counted__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.plan_id}: {self.seen_version}"


class OrphanRound(models.Model):
    """How far the search for segments that were stored and never answered is. There is one row."""

    position = models.BigIntegerField(default=0, help_text="The last attempt that was looked at.")
    began_at = models.DateTimeField()
    previous_began_at = models.DateTimeField(
        null=True, help_text="What was heard well before that was looked at in the round before."
    )

    def __str__(self) -> str:
        return f"from {self.began_at}: {self.position}"


class StorageOperation(models.TextChoices):
    """What was being done when the object store failed."""

    RECEIVE = "RECEIVE"
    SEAL = "SEAL"
    SWEEP = "SWEEP"
    READ = "READ"
    CONCLUDE = "CONCLUDE"


class StorageFault(models.Model):
    """One time that the object store failed. The newest are kept, for whoever runs the server."""

    at = models.DateTimeField()
    operation = models.CharField(max_length=8)
    sentence = models.CharField(max_length=500)

    class Meta:
        indexes = [models.Index(name="storage_fault_newest", fields=["-at"])]

    def __str__(self) -> str:
        return f"{self.operation}: {self.sentence}"
