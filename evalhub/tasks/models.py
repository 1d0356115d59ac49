"""What is known of the sweeps: the one sign of life that a worker leaves in the database."""

from django.db import models

INSTALLATION = "installation"
"""The name of the row that a migration writes: until the first sweep, silence counts from there."""


class SweepRun(models.Model):
    """When a sweep was last done, and when it last failed. One row per sweep, written at its end."""

    name = models.CharField(max_length=100, unique=True, help_text="Its TaskName.")
    started_at = models.DateTimeField(help_text="Of the last one, however it ended.")
    finished_at = models.DateTimeField(null=True, help_text="Null until one was done.")
    failed_at = models.DateTimeField(null=True, help_text="Null until one failed.")
    error = models.CharField(max_length=500, help_text="Of the last one; empty when it was done.")

    def __str__(self) -> str:
        return self.name
