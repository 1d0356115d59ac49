from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('evidence_store', '0008_item_secrets'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='item',
            index=models.Index(condition=models.Q(('secrets__gt', '-')), fields=['attempt'], name='item_with_secrets'),
        ),
        AddIndexConcurrently(
            model_name='item',
            index=models.Index(condition=models.Q(('secrets__isnull', True)), fields=['id'], name='item_not_looked_at'),
        ),
    ]
