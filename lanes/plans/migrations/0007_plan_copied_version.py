from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_plans', '0006_attempt_clock_ahead'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='copied_version',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text="inputs_version + concluded_version that the plan's objects tell of."),
        ),
        migrations.AddField(
            model_name='plan',
            name='copied_superseded_at',
            field=models.DateTimeField(help_text='As the objects tell it.', null=True),
        ),
        migrations.AddField(
            model_name='plan',
            name='copied_cancelled_at',
            field=models.DateTimeField(help_text='As the objects tell it.', null=True),
        ),
    ]
