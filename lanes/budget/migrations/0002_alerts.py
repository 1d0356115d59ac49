from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_budget', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='limit_set_at',
            field=models.DateTimeField(help_text='When the limit was changed last; null: with the pool.', null=True),
        ),
        migrations.AddField(
            model_name='suballocation',
            name='weighed_microusd',
            field=models.BigIntegerField(db_default=0, default=0, help_text='How much of what was spent the alerts have seen.'),
        ),
    ]
