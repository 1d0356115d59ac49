"""What probes found: each request to a simulator that was held against the real API, and the rates."""

from django.db import models

from lanes.projects.models import Project


class ProbeResult(models.Model):
    """One probe in one attempt of a lane, as its `lane/probes.<part>.ndjson` tells it.

    Simulator and build are those that the plan gives the lane.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="probe_results")
    suite_name = models.CharField(max_length=64)
    simulator = models.CharField(max_length=64)
    build = models.CharField(max_length=71)
    plan = models.CharField(max_length=71)
    lane = models.CharField(max_length=64)
    attempt = models.CharField(max_length=64)
    probe = models.CharField(max_length=200)
    digest = models.CharField(max_length=71)
    category = models.CharField(max_length=200)
    source = models.CharField(max_length=10)
    result = models.CharField(max_length=12)
    paths = models.JSONField(help_text="Where the answers differ.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="probe_once_per_attempt", fields=["attempt", "probe"]),
            models.CheckConstraint(
                name="probe_result_is_a_word_of_the_wire",
                condition=models.Q(result__in=["match", "status_only", "mismatch", "unverified"]),
            ),
        ]
        indexes = [models.Index(name="probe_result_of_plan", fields=["plan", "result"])]

    def __str__(self) -> str:
        return f"{self.probe}: {self.result}"


class MatchRate(models.Model):
    """How many distinct probes of one plan matched on one build, as of the plan's newest conclusion.

    A probe that several lanes ran counts once, by its worst answer; what nobody could verify is in
    none of the first three. `probe_set` names the probes: rates of different sets do not compare.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="match_rates")
    suite_name = models.CharField(max_length=64)
    simulator = models.CharField(max_length=64)
    build = models.CharField(max_length=71)
    plan = models.CharField(max_length=71)
    registered_at = models.DateTimeField(help_text="When the plan was registered.")
    probe_set = models.CharField(max_length=71)
    matched = models.PositiveIntegerField()
    status_only = models.PositiveIntegerField()
    mismatched = models.PositiveIntegerField()
    unverified = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="match_rate_once_per_build", fields=["plan", "simulator", "build"]
            )
        ]
        indexes = [
            models.Index(
                name="match_rate_newest_of_build",
                fields=["project", "suite_name", "simulator", "build", "-registered_at", "-id"],
            )
        ]

    def __str__(self) -> str:
        return f"{self.simulator}: {self.matched} of {self.verified}"

    @property
    def verified(self) -> int:
        return self.matched + self.status_only + self.mismatched
