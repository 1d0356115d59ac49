from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_plans', '0003_plan_behind_since'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='conclusion',
            field=models.CharField(help_text="The newest conclusion's word, to find plans by.", max_length=16, null=True),
        ),
        migrations.AddField(
            model_name='plan',
            name='conclusion_version',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text='The concluded_version that `conclusion` is of; behind where another release concluded.'),
        ),
    ]
