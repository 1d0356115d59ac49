"""What a plan means: one row per evaluation, the newest one governs."""

from django.db import models

from gates.verdicts.models import DecisionRecord
from lanes.plans.models import Plan


class Conclusion(models.Model):
    """Verdicts and gather findings folded to one word. Stored only if the inputs stood still meanwhile."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="conclusions")
    generation = models.PositiveIntegerField()
    inputs_version = models.PositiveBigIntegerField()
    conclusion = models.CharField(max_length=16)
    title = models.CharField(max_length=300)
    content = models.JSONField(help_text="As WIRE section 4 gives it.")
    records = models.ManyToManyField(DecisionRecord, related_name="conclusions")
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="conclusion_once_per_inputs", fields=["plan", "inputs_version"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.plan_id}: {self.conclusion}"
