from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('gates_verdicts', '0001_initial'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='baseline',
            index=models.Index(fields=['project', '-adopted_at', '-id'], name='baseline_newest_of_project'),
        ),
    ]
