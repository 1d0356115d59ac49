"""What arrived: segments, what of them was refused, and the seal of an attempt."""

from django.db import models
from django.db.models import Q

from evalhub.protocol.redaction import redacted_text
from evalhub.protocol.segments import Category
from evidence.store.models.keeping import Removal
from lanes.plans.models import Attempt, Plan

LONGEST_KEPT_PATH = 1000
"""Of what a refused archive calls its members; WIRE's own paths are no longer."""


class Segment(models.Model):
    """A received segment. The row holds its receipt; the object holds its bytes."""

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="segments")
    seq = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=71)
    size_bytes = models.PositiveBigIntegerField()
    segment_class = models.CharField(max_length=6)
    object_key = models.CharField(max_length=700)
    created_at = models.DateTimeField(help_text="When the lane says that it made the segment.")
    received_at = models.DateTimeField()
    receipt = models.JSONField()
    receipt_stored_at = models.DateTimeField(
        null=True,
        help_text="When a sweep saw the receipt beside the object; it writes absent ones.",
    )
    removal = models.ForeignKey(
        Removal,
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        related_name="segments_removed",
    )
    gone_at = models.DateTimeField(
        null=True, help_text="Of what was removed: when its bytes were seen to be gone."
    )
    is_counted = models.BooleanField(
        default=False, db_default=False, help_text="Whether the plan's storage has counted it."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="segment_once_per_attempt", fields=["attempt", "seq"])
        ]
        indexes = [
            models.Index(
                name="segment_without_receipt_object",
                fields=["received_at"],
                condition=Q(receipt_stored_at__isnull=True),
            ),
            models.Index(name="segment_not_counted", fields=["id"], condition=Q(is_counted=False)),
            models.Index(
                name="segment_being_removed",
                fields=["removal", "id"],
                condition=Q(removal__isnull=False, gone_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id}/{self.seq}"


class Seal(models.Model):
    """What had been received of an attempt when it was sealed. The row is the fact, `seal.json` its copy."""

    attempt = models.OneToOneField(Attempt, on_delete=models.PROTECT, related_name="seal")
    segments = models.PositiveIntegerField()
    digest = models.CharField(max_length=71, help_text="Over the seq and sha256 of each segment.")
    sealed_at = models.DateTimeField()
    stored_at = models.DateTimeField(
        null=True, help_text="When its object was seen; a sweep writes absent ones."
    )

    class Meta:
        indexes = [
            models.Index(
                name="seal_without_object",
                fields=["sealed_at"],
                condition=Q(stored_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id}: {self.segments}"


class Refusal(models.Model):
    """Evidence in quarantine: it keeps its bytes and its cost, and never reaches a statistic.

    `path` is empty when a whole segment was refused.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="refusals")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="refusals")
    segment = models.ForeignKey(
        Segment, on_delete=models.PROTECT, null=True, related_name="refusals"
    )
    path = models.CharField(max_length=1000)
    category = models.CharField(max_length=12)
    code = models.CharField(max_length=40)
    detail = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=71)
    size_bytes = models.PositiveBigIntegerField()
    object_key = models.CharField(max_length=700)
    refused_at = models.DateTimeField()
    stored_at = models.DateTimeField(
        null=True,
        help_text="Of a whole segment: when its reason was seen as an object; a sweep writes absent ones.",
    )
    removal = models.ForeignKey(
        Removal,
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        related_name="refusals_removed",
    )
    gone_at = models.DateTimeField(
        null=True, help_text="Of what was removed: when its bytes were seen to be gone."
    )
    is_counted = models.BooleanField(
        default=False, db_default=False, help_text="Whether the plan's storage has counted it."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="refusal_has_a_category",
                condition=Q(category__in=[str(c) for c in Category if c is not Category.MISSING]),
            )
        ]
        indexes = [
            models.Index(name="refusal_of_plan", fields=["plan", "-refused_at", "-id"]),
            models.Index(
                name="refusal_without_object",
                fields=["refused_at"],
                condition=Q(segment__isnull=True, stored_at__isnull=True),
            ),
            models.Index(
                name="refusal_not_counted",
                fields=["id"],
                condition=Q(segment__isnull=True, is_counted=False),
            ),
            models.Index(
                name="refusal_being_removed",
                fields=["removal", "id"],
                condition=Q(removal__isnull=False, gone_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.category}: {self.path}"

    @property
    def shown_path(self) -> str:
        """The path as anybody may see it: whoever sends something names it as he likes."""
        return redacted_text(self.path)
