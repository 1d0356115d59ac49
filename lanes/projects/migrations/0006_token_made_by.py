from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_projects', '0005_trusted_publishers'),
    ]

    operations = [
        migrations.AddField(
            model_name='token',
            name='made_by',
            field=models.CharField(db_default='', default='', help_text='As the audit names who it was.', max_length=200),
        ),
    ]
