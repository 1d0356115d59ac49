from django.db import migrations
from django.utils import timezone


def note_the_installation(apps, schema_editor):
    """Let silence begin now: a worker that has just been set up has had no time to be heard."""
    at = timezone.now()
    apps.get_model("evalhub_tasks", "SweepRun").objects.get_or_create(
        name="installation", defaults={"started_at": at, "finished_at": at, "error": ""}
    )


class Migration(migrations.Migration):

    dependencies = [
        ("evalhub_tasks", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(note_the_installation, migrations.RunPython.noop),
    ]
