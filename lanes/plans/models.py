"""What should run: suites, policies, plans, their lanes and attempts, and the nightlies to wait for."""

from django.db import models
from django.db.models import F, Q

from lanes.projects.models import Project


class SuiteVersion(models.Model):
    """A suite as the base branch registered it. Every version is kept; the newest is current."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="suites")
    name = models.CharField(max_length=64)
    digest = models.CharField(max_length=71)
    document = models.TextField(help_text="RFC 8785 text.")
    registered_at = models.DateTimeField()
    current_since = models.DateTimeField(
        help_text="Registering an older version again makes it current."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="suite_version_once", fields=["project", "name", "digest"])
        ]
        indexes = [
            models.Index(name="suite_current", fields=["project", "name", "-current_since", "-id"])
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:19]}"


class PolicyVersion(models.Model):
    """A policy as the base branch registered it."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="policies")
    digest = models.CharField(max_length=71)
    document = models.TextField(help_text="RFC 8785 text.")
    registered_at = models.DateTimeField()
    current_since = models.DateTimeField()
    is_foreign = models.BooleanField(
        default=False,
        db_default=False,
        help_text="It came with a foreign plan, and was never in force in this project.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="policy_version_once", fields=["project", "digest"])
        ]
        indexes = [models.Index(name="policy_current", fields=["project", "-current_since", "-id"])]

    def __str__(self) -> str:
        return self.digest[:19]


class PlanState(models.TextChoices):
    REGISTERED = "REGISTERED"
    RUNNING = "RUNNING"
    CONCLUDED = "CONCLUDED"


IS_AHEAD_OF_COPY = (
    Q(copied_version__lt=F("inputs_version") + F("concluded_version"))
    | Q(superseded_at__isnull=False, copied_superseded_at__isnull=True)
    | Q(cancelled_at__isnull=False, copied_cancelled_at__isnull=True)
)
"""Selects the plans whose rows know more than their objects tell."""


class Plan(models.Model):
    """A registered plan. The document is kept as its canonical text; columns are copies to find it by.

    `inputs_version` rises with every change that can alter a conclusion, in the transaction of the
    change; `generation` rises when a concluded plan runs again. A cancelled plan comes to rest without
    a conclusion: then `concluded_version` is the version that the check has seen.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="plans")
    policy = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="plans")
    digest = models.CharField(max_length=71, unique=True)
    document = models.TextField(help_text="RFC 8785 text; its sha256 is the digest.")
    kind = models.CharField(max_length=10)
    suite_name = models.CharField(max_length=64)
    suite_digest = models.CharField(max_length=71)
    event = models.CharField(max_length=16)
    ref = models.CharField(max_length=500, null=True)  # noqa: DJ001 - null names null
    pull_request = models.BigIntegerField(null=True)
    head_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001
    tested_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001
    base_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001
    workflow_run_id = models.BigIntegerField(null=True)
    run_count = models.PositiveIntegerField(help_text="Run keys of all lanes.")
    is_verified = models.BooleanField(default=False)
    verified_source = models.JSONField(
        null=True, help_text="What the CI job's identity said; null for a static token."
    )
    is_foreign = models.BooleanField(
        default=False,
        db_default=False,
        help_text="It was imported: it has no check, spends nothing and governs nothing here.",
    )
    state = models.CharField(max_length=10, default=PlanState.REGISTERED)
    generation = models.PositiveIntegerField(default=1)
    inputs_version = models.PositiveBigIntegerField(default=1)
    concluded_version = models.PositiveBigIntegerField(
        default=0,
        help_text="The inputs_version that the newest conclusion saw; 0 before the first.",
    )
    behind_since = models.DateTimeField(
        null=True,
        help_text="When the inputs first moved past the newest conclusion; null before they did.",
    )
    conclusion = models.CharField(  # noqa: DJ001 - null before the first
        max_length=16, null=True, help_text="The newest conclusion's word, to find plans by."
    )
    conclusion_version = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        help_text="The concluded_version that `conclusion` is of; behind where another release concluded.",
    )
    copied_version = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        help_text="inputs_version + concluded_version that the plan's objects tell of.",
    )
    copied_superseded_at = models.DateTimeField(null=True, help_text="As the objects tell it.")
    copied_cancelled_at = models.DateTimeField(null=True, help_text="As the objects tell it.")
    registered_by = models.CharField(max_length=200)
    registered_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    superseded_at = models.DateTimeField(null=True)
    cancelled_at = models.DateTimeField(null=True)
    cancelled_by = models.CharField(max_length=200, default="", db_default="")
    cancel_reason = models.CharField(max_length=300, default="", db_default="")
    concluded_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                name="plan_newest_of_project", fields=["project", "-registered_at", "-id"]
            ),
            models.Index(
                name="plan_newest_of_suite",
                fields=["project", "suite_name", "-registered_at", "-id"],
            ),
            models.Index(
                name="plan_newest_by_conclusion",
                fields=["project", "conclusion", "-registered_at", "-id"],
            ),
            models.Index(
                name="plan_of_suite_by_conclusion",
                fields=["project", "suite_name", "conclusion", "-registered_at", "-id"],
            ),
            models.Index(name="plan_of_commit", fields=["project", "suite_name", "head_sha"]),
            models.Index(
                name="plan_of_tested_commit", fields=["project", "suite_name", "tested_sha"]
            ),
            models.Index(
                name="plan_not_superseded",
                fields=["project", "suite_name", "pull_request"],
                condition=Q(superseded_at__isnull=True),
            ),
            models.Index(
                name="plan_of_older_conclusion",
                fields=["concluded_version"],
                condition=Q(conclusion_version__lt=F("concluded_version")),
            ),
            models.Index(
                name="plan_behind_its_copy", fields=["registered_at"], condition=IS_AHEAD_OF_COPY
            ),
            models.Index(name="plan_of_workflow_run", fields=["workflow_run_id"]),
            models.Index(
                name="plan_behind_its_inputs",
                fields=["deadline_at"],
                condition=Q(concluded_version__lt=F("inputs_version")),
            ),
        ]

    def __str__(self) -> str:
        return self.digest

    @property
    def is_open(self) -> bool:
        """Whether a conclusion is still to come."""
        return self.state != PlanState.CONCLUDED and self.cancelled_at is None

    @property
    def is_live(self) -> bool:
        """Whether the plan still governs its commit's check."""
        return self.superseded_at is None and self.cancelled_at is None


class Origin(models.Model):
    """Where a foreign plan came from, who brought it, and what was concluded there.

    The document is `foreign.json` as its canonical text; columns are copies.
    """

    plan = models.OneToOneField(Plan, on_delete=models.PROTECT, related_name="origin")
    project = models.CharField(max_length=200, help_text="As the plan itself names it.")
    instance = models.CharField(  # noqa: DJ001 - null where the archive does not tell
        max_length=500, null=True, help_text="The address of the server that it was exported from."
    )
    archive_sha256 = models.CharField(max_length=71)
    exported_at = models.DateTimeField()
    imported_at = models.DateTimeField()
    imported_by = models.CharField(max_length=200)
    document = models.TextField(help_text="RFC 8785 text.")

    def __str__(self) -> str:
        return f"{self.plan_id}: {self.project}"


class Lane(models.Model):
    """A worker of a plan."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="lanes")
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=10)
    run_count = models.PositiveIntegerField()
    is_required = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(name="lane_once_per_plan", fields=["plan", "name"])]

    def __str__(self) -> str:
        return self.name


class JobBinding(models.Model):
    """The lane that a CI job speaks for in one attempt of its workflow run, and no other job."""

    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="job_bindings")
    repository_id = models.BigIntegerField()
    workflow_run_id = models.BigIntegerField()
    run_attempt = models.BigIntegerField()
    job = models.BigIntegerField(help_text="The job's own check run.")
    bound_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="binding_one_lane_per_job",
                fields=["repository_id", "workflow_run_id", "run_attempt", "job"],
            ),
            models.UniqueConstraint(
                name="binding_one_job_per_lane",
                fields=["lane", "repository_id", "workflow_run_id", "run_attempt"],
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.job} for lane {self.lane_id}"


class AttemptState(models.TextChoices):
    OPEN = "OPEN"
    SILENT = "SILENT"
    SEALED = "SEALED"
    SUPERSEDED = "SUPERSEDED"
    CANCELLED = "CANCELLED"


class Attempt(models.Model):
    """One try of a lane. Open or silent attempts accept evidence at any time, also after close."""

    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="attempts")
    key = models.CharField(max_length=64, unique=True, help_text="att_…, as the wire names it.")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=10, default=AttemptState.OPEN)
    opened_at = models.DateTimeField()
    last_heard_at = models.DateTimeField()
    clock_ahead_until = models.DateTimeField(
        null=True, help_text="What this server's clock had shown when it was set back meanwhile."
    )
    ended_at = models.DateTimeField(null=True, help_text="Sealed, superseded or cancelled.")
    phase = models.CharField(max_length=500, default="")
    done = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="attempt_number_once_per_lane", fields=["lane", "number"]),
            models.CheckConstraint(
                name="attempt_ended_when_not_accepting",
                condition=Q(state__in=["OPEN", "SILENT"], ended_at__isnull=True)
                | Q(state__in=["SEALED", "SUPERSEDED", "CANCELLED"], ended_at__isnull=False),
            ),
            models.CheckConstraint(
                name="attempt_heard_after_opening", condition=Q(last_heard_at__gte=F("opened_at"))
            ),
        ]
        # Without `last_heard_at`, which each upload and heartbeat writes: few are open at a time.
        indexes = [models.Index(name="attempt_by_state", fields=["state"])]

    def __str__(self) -> str:
        return self.key

    @property
    def accepts_evidence(self) -> bool:
        return self.state in {AttemptState.OPEN, AttemptState.SILENT}


class ExpectedSchedule(models.Model):
    """A nightly that a project waits for: a plan of a suite with event `schedule`, each time it is due.

    The columns from `judged_until` on are what the sweep knows of it.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="schedules")
    suite_name = models.CharField(max_length=64)
    cron = models.CharField(max_length=100)
    timezone = models.CharField(max_length=64, help_text="A name of the IANA database.")
    grace_minutes = models.PositiveIntegerField(
        help_text="How long after its time a nightly may be registered."
    )
    is_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    judged_until = models.DateTimeField(
        help_text="Each time that was due up to here was looked at, or is nobody's concern."
    )
    missed_since = models.DateTimeField(
        null=True, help_text="The first of the due times in a row without a plan."
    )
    missed_count = models.PositiveIntegerField(default=0, help_text="How many they are.")
    noticed_due_at = models.DateTimeField(
        null=True, help_text="The due time of the newest notice about them."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="schedule_once_per_suite", fields=["project", "suite_name"]
            ),
            models.CheckConstraint(
                name="schedule_missed_since_when_missed",
                condition=Q(missed_count=0, missed_since__isnull=True)
                | Q(missed_count__gt=0, missed_since__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.suite_name} at {self.cron} {self.timezone}"
