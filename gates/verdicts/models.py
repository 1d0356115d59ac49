"""Baselines, and the decision records that say what was compared with what and how it came out."""

from django.db import models

from lanes.plans.models import Plan
from lanes.projects.models import Project


class BaselineKind(models.TextChoices):
    ROLLING = "ROLLING"
    RELEASE = "RELEASE"


class Baseline(models.Model):
    """A plan that a maintainer (or the policy) named as the comparator of a suite. Rows are kept."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="baselines")
    suite_name = models.CharField(max_length=64)
    kind = models.CharField(max_length=8, choices=BaselineKind.choices)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="baseline_of")
    adopted_by = models.CharField(max_length=200)
    adopted_at = models.DateTimeField()
    reason = models.TextField()

    class Meta:
        indexes = [
            models.Index(
                name="baseline_current",
                fields=["project", "suite_name", "kind", "-adopted_at", "-id"],
            ),
            models.Index(
                name="baseline_newest_of_project", fields=["project", "-adopted_at", "-id"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.suite_name}: {self.plan_id}"


class ChosenBaseline(models.Model):
    """The baseline that a plan first chose. It keeps it until new evidence or a person says otherwise."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="chosen_baselines")
    kind = models.CharField(max_length=8, choices=BaselineKind.choices)
    baseline = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="+")
    evidence_digest = models.CharField(
        max_length=71,
        help_text="Of the plan's own evidence when it chose; other evidence chooses anew.",
    )
    chosen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="baseline_chosen_once_per_kind", fields=["plan", "kind"])
        ]

    def __str__(self) -> str:
        return f"{self.plan_id} against {self.baseline_id}"


class DecisionRecord(models.Model):
    """One verdict with everything that it rests on, named by the digest of its content. Never edited."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="decision_records")
    digest = models.CharField(max_length=71, unique=True)
    arm = models.CharField(max_length=64)
    rubric = models.CharField(max_length=64)
    category = models.CharField(max_length=200, null=True)  # noqa: DJ001 - null is the overall slice
    comparison = models.CharField(max_length=10)
    verdict = models.CharField(max_length=16)
    content = models.JSONField()
    decided_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.rubric} {self.arm}: {self.verdict}"
