from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('evidence_store', '0006_removals_pins_and_storage'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='refusal',
            index=models.Index(condition=models.Q(('is_counted', False), ('segment__isnull', True)), fields=['id'], name='refusal_not_counted'),
        ),
        AddIndexConcurrently(
            model_name='refusal',
            index=models.Index(condition=models.Q(('gone_at__isnull', True), ('removal__isnull', False)), fields=['removal', 'id'], name='refusal_being_removed'),
        ),
        AddIndexConcurrently(
            model_name='segment',
            index=models.Index(condition=models.Q(('is_counted', False)), fields=['id'], name='segment_not_counted'),
        ),
        AddIndexConcurrently(
            model_name='segment',
            index=models.Index(condition=models.Q(('gone_at__isnull', True), ('removal__isnull', False)), fields=['removal', 'id'], name='segment_being_removed'),
        ),
    ]
