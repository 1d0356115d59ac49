from django.db import migrations, models
from django.db.models import F, Q

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('lanes_plans', '0007_plan_copied_version'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='plan',
            index=models.Index(
                fields=['registered_at'],
                name='plan_behind_its_copy',
                condition=Q(copied_version__lt=F('inputs_version') + F('concluded_version'))
                | Q(superseded_at__isnull=False, copied_superseded_at__isnull=True)
                | Q(cancelled_at__isnull=False, copied_cancelled_at__isnull=True),
            ),
        ),
    ]
