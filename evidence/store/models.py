"""What came back: segments and their items, refusals, runs, judge calls and scores."""

from django.db import models
from django.db.models import Q

from evalhub.protocol.segments import Category
from lanes.plans.models import Attempt, Lane, Plan

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

    class Meta:
        constraints = [
            models.UniqueConstraint(name="segment_once_per_attempt", fields=["attempt", "seq"])
        ]
        indexes = [
            models.Index(
                name="segment_without_receipt_object",
                fields=["received_at"],
                condition=Q(receipt_stored_at__isnull=True),
            )
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


class Run(models.Model):
    """One execution of a run key in one attempt. Exists from the first accepted item on.

    `outcome` is null until a result was accepted: the lane may have died, its transcript is kept.
    """

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="runs")
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="runs")
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="runs")
    scenario = models.CharField(max_length=200)
    arm = models.CharField(max_length=64)
    epoch = models.PositiveIntegerField()
    outcome = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null is "no result yet"
    code = models.CharField(max_length=200, null=True)  # noqa: DJ001
    started_at = models.DateTimeField(null=True, help_text="When the lane says that it started.")
    duration_ms = models.PositiveBigIntegerField(null=True)
    transcript_parts = models.PositiveIntegerField(default=0, help_text="As the result says.")
    error_origin = models.CharField(max_length=200, null=True)  # noqa: DJ001
    error_type = models.CharField(max_length=200, null=True)  # noqa: DJ001

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="run_once_per_attempt", fields=["attempt", "scenario", "arm", "epoch"]
            )
        ]
        indexes = [
            models.Index(name="run_of_plan", fields=["plan", "scenario", "arm", "epoch"]),
            models.Index(name="run_by_outcome", fields=["plan", "outcome"]),
        ]

    def __str__(self) -> str:
        return f"{self.scenario}/{self.arm}/{self.epoch}"


class Item(models.Model):
    """An accepted piece of evidence: a path of an attempt, and where its bytes lie in the segment."""

    segment = models.ForeignKey(Segment, on_delete=models.PROTECT, related_name="items")
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="items")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, null=True, related_name="items")
    path = models.CharField(max_length=1000)
    kind = models.CharField(max_length=12)
    part = models.PositiveIntegerField(null=True)
    name = models.CharField(max_length=300, null=True)  # noqa: DJ001 - null where the kind has no name
    sha256 = models.CharField(max_length=71)
    size_bytes = models.PositiveBigIntegerField()
    header_offset = models.PositiveBigIntegerField(help_text="Of the member's local header.")
    stored_bytes = models.PositiveBigIntegerField(help_text="Compressed size inside the segment.")
    lines = models.PositiveIntegerField(null=True, help_text="Of a transcript or judge part.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="item_once_per_attempt", fields=["attempt", "path"])
        ]
        indexes = [models.Index(name="item_of_run", fields=["run", "kind", "part"])]

    def __str__(self) -> str:
        return self.path


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
        ]

    def __str__(self) -> str:
        return f"{self.category}: {self.path}"


class JudgeCall(models.Model):
    """One scoring of one run on one rubric by one stage. Its rationale stays in the object."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="judge_calls")
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="judge_calls")
    call_id = models.UUIDField()
    rubric = models.CharField(max_length=64)
    stage = models.CharField(max_length=12)
    fingerprint = models.CharField(max_length=71)
    repeat = models.PositiveIntegerField()
    value = models.FloatField(null=True)
    unscored_reason = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null when scored

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="call_scored_or_says_why_not",
                condition=Q(value__isnull=True, unscored_reason__isnull=False)
                | Q(value__isnull=False, unscored_reason__isnull=True),
            )
        ]
        indexes = [models.Index(name="judge_call_of_run", fields=["run", "rubric", "stage"])]

    def __str__(self) -> str:
        return str(self.call_id)


class Score(models.Model):
    """The value of one run on one rubric at one stage: the mean of its non-null repeats.

    Measured values that need no judge have the stage `result` and an empty fingerprint.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="scores")
    rubric = models.CharField(max_length=64)
    stage = models.CharField(max_length=12)
    fingerprint = models.CharField(max_length=71)
    value = models.FloatField(null=True)
    repeats = models.PositiveIntegerField(help_text="Calls, with and without a value.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="score_once_per_stage", fields=["run", "rubric", "stage", "fingerprint"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.rubric}={self.value}"


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
