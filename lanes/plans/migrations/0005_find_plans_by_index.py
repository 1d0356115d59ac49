from django.db import models
from django.db import migrations

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('lanes_plans', '0004_plan_conclusion'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(fields=['project', 'suite_name', '-registered_at', '-id'], name='plan_newest_of_suite'),
        ),
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(fields=['project', 'conclusion', '-registered_at', '-id'], name='plan_newest_by_conclusion'),
        ),
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(fields=['project', 'suite_name', 'conclusion', '-registered_at', '-id'], name='plan_of_suite_by_conclusion'),
        ),
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(fields=['project', 'suite_name', 'tested_sha'], name='plan_of_tested_commit'),
        ),
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(condition=models.Q(('superseded_at__isnull', True)), fields=['project', 'suite_name', 'pull_request'], name='plan_not_superseded'),
        ),
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(condition=models.Q(('conclusion_version__lt', models.F('concluded_version'))), fields=['concluded_version'], name='plan_of_older_conclusion'),
        ),
        AddIndexConcurrently(
            model_name='attempt',
            index=models.Index(fields=['state'], name='attempt_by_state'),
        ),
    ]
