from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('evidence_store', '0003_seal_and_plan_copy'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='refusal',
            index=models.Index(condition=models.Q(('segment__isnull', True), ('stored_at__isnull', True)), fields=['refused_at'], name='refusal_without_object'),
        ),
    ]
