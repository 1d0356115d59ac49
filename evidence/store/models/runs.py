"""What segments hold: runs and their items, judge calls and scores."""

from django.db import models
from django.db.models import Q

from evalhub.protocol.redaction import redacted_text
from evidence.store.models.segments import Segment
from lanes.plans.models import Attempt, Lane, Plan

NOTHING_FOUND = ""
"""`Item.secrets` of an item that was looked at and holds none."""
UNREADABLE = "-"
"""`Item.secrets` of an item whose bytes could not be read back to be looked at."""
HAS_SECRETS = Q(secrets__gt=UNREADABLE)
NOT_LOOKED_AT = Q(secrets__isnull=True)


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
    secrets = models.CharField(  # noqa: DJ001 - null is "not looked at yet"
        max_length=200,
        null=True,
        help_text="Secrets found in it, as `kind:number kind:number`; null until it was looked at.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="item_once_per_attempt", fields=["attempt", "path"])
        ]
        indexes = [
            models.Index(name="item_of_run", fields=["run", "kind", "part"]),
            models.Index(name="item_with_secrets", fields=["attempt"], condition=HAS_SECRETS),
            models.Index(name="item_not_looked_at", fields=["id"], condition=NOT_LOOKED_AT),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def has_secrets(self) -> bool:
        return self.secrets is not None and self.secrets > UNREADABLE

    @property
    def shown_path(self) -> str:
        """The path as anybody may see it: an attachment's name may show a secret, too."""
        return self.path if self.secrets == NOTHING_FOUND else redacted_text(self.path)

    @property
    def shown_name(self) -> str | None:
        if self.name is None or self.secrets == NOTHING_FOUND:
            return self.name
        return redacted_text(self.name)


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
