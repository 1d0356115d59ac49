from django.db import models
from django.db import migrations

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('lanes_budget', '0004_folded_spending'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='suballocation',
            index=models.Index(condition=models.Q(('released_at__isnull', True), models.Q(('spent_microusd', models.F('folded_microusd')), _negated=True), _connector='OR'), fields=['pool'], name='allocation_not_folded'),
        ),
    ]
