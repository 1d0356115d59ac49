from django.db import migrations, models

from evalhub.schema_changes import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('lanes_projects', '0006_token_made_by'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='token',
            index=models.Index(condition=models.Q(('attempt__isnull', True), ('publisher__isnull', True)), fields=['project', '-id'], name='token_static_of_project'),
        ),
    ]
