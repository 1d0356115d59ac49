from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_budget', '0003_allocation_to_weigh'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='folded_microusd',
            field=models.BigIntegerField(db_default=0, default=0, help_text='What its released sub-allocations have spent, as far as they say that it is in here.'),
        ),
        migrations.AddField(
            model_name='suballocation',
            name='folded_microusd',
            field=models.BigIntegerField(db_default=0, default=0, help_text="How much of what was spent the pool's own sum holds."),
        ),
    ]
