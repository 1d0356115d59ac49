"""How long evidence is kept, what is needed longer, and what was removed."""

from django.db import models
from django.db.models import Q

from evalhub.protocol.tombstones import Cause, RemovalScope
from lanes.plans.models import Plan
from lanes.projects.models import Project


class Removal(models.Model):
    """An order to remove bytes: a maintainer's purge, or the age that a project's evidence has.

    What it removes names it in the transaction of the order, before any byte goes. A sweep carries it
    out; each tombstone tells all of it.
    """

    key = models.CharField(max_length=64, unique=True, help_text="rem_…, as tombstones name it.")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="removals")
    cause = models.CharField(max_length=9)
    scope = models.CharField(max_length=7)
    subject = models.CharField(max_length=500, help_text="What of the plan; empty for all of it.")
    ordered_by = models.CharField(max_length=200)
    reason = models.CharField(max_length=2000)
    ordered_at = models.DateTimeField()
    segments = models.PositiveIntegerField(help_text="How many it removes.")
    size_bytes = models.PositiveBigIntegerField()
    finished_at = models.DateTimeField(null=True, help_text="When all bytes were seen to be gone.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="removal_cause_and_scope_known",
                condition=Q(cause__in=list(Cause), scope__in=list(RemovalScope)),
            )
        ]
        indexes = [
            models.Index(
                name="removal_unfinished",
                fields=["ordered_at", "id"],
                condition=Q(finished_at__isnull=True),
            ),
            models.Index(name="removal_newest_of_plan", fields=["plan", "-id"]),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def sentence(self) -> str:
        """Say who removed it and why, where the evidence would be shown."""
        day = f"{self.ordered_at:%Y-%m-%d}"
        if self.cause == Cause.RETENTION:
            return f"Removed by retention on {day}: {self.reason}"
        return f"Purged by {self.ordered_by} on {day}: {self.reason}"


class StoredClass(models.TextChoices):
    """What is kept alike: the two classes of segments, and segments that were refused as a whole."""

    RECORD = "record"
    BULK = "bulk"
    REFUSED = "refused"


class PlanStorage(models.Model):
    """How many bytes a plan's segments of one class have. A sweep counts each segment once."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="storage")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    stored_class = models.CharField(max_length=7)
    segments = models.PositiveBigIntegerField(default=0, help_text="Whose bytes are there.")
    size_bytes = models.PositiveBigIntegerField(default=0)
    removed_segments = models.PositiveBigIntegerField(default=0)
    removed_bytes = models.PositiveBigIntegerField(default=0)
    last_received_at = models.DateTimeField(help_text="From when on their age counts.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="storage_once_per_class", fields=["plan", "stored_class"])
        ]
        indexes = [
            models.Index(
                name="storage_oldest_of_class",
                fields=["project", "stored_class", "last_received_at", "id"],
                condition=Q(segments__gt=0),
            )
        ]

    def __str__(self) -> str:
        return f"{self.plan_id} {self.stored_class}: {self.size_bytes}"


class Retention(models.Model):
    """For how many days a project keeps its evidence; null keeps it for good."""

    project = models.OneToOneField(Project, on_delete=models.PROTECT, related_name="retention")
    record_days = models.PositiveIntegerField(null=True)
    bulk_days = models.PositiveIntegerField(null=True)
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.project_id}: {self.record_days}, {self.bulk_days}"


class Pin(models.Model):
    """Somebody needs the evidence of a plan, whatever its age. Each holder pins for itself."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="pins")
    holder = models.CharField(max_length=100, help_text="`maintainer`, or what needs it.")
    reason = models.CharField(max_length=2000)
    pinned_by = models.CharField(max_length=200)
    pinned_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="pin_once_per_holder", fields=["plan", "holder"])
        ]
        indexes = [models.Index(name="pin_of_holder", fields=["holder"])]

    def __str__(self) -> str:
        return f"{self.plan_id} for {self.holder}"
