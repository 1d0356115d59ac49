"""What came back: segments and their items, refusals, runs, judge calls and scores; and what was removed."""

from django.db import models
from django.db.models import Q

from evalhub.protocol.redaction import redacted_text
from evalhub.protocol.segments import Category
from evalhub.protocol.tombstones import Cause, RemovalScope
from lanes.plans.models import Attempt, Lane, Plan
from lanes.projects.models import Project

LONGEST_KEPT_PATH = 1000
"""Of what a refused archive calls its members; WIRE's own paths are no longer."""
NOTHING_FOUND = ""
"""`Item.secrets` of an item that was looked at and holds none."""
UNREADABLE = "-"
"""`Item.secrets` of an item whose bytes could not be read back to be looked at."""
HAS_SECRETS = Q(secrets__gt=UNREADABLE)
NOT_LOOKED_AT = Q(secrets__isnull=True)


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
