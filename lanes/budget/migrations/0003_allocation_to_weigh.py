from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('lanes_budget', '0002_alerts'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='suballocation',
            index=models.Index(condition=models.Q(('spent_microusd', models.F('weighed_microusd')), _negated=True), fields=['pool'], name='allocation_to_weigh'),
        ),
    ]
