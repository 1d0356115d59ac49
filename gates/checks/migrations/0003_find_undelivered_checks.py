from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('gates_checks', '0002_check_undelivered_since'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='check',
            index=models.Index(condition=models.Q(('sent_version__lt', models.F('desired_version'))), fields=['undelivered_since'], name='check_behind_at_github'),
        ),
    ]
