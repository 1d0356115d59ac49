from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_plans', '0009_foreign_plan'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='cancelled_by',
            field=models.CharField(db_default='', default='', max_length=200),
        ),
        migrations.AddField(
            model_name='plan',
            name='cancel_reason',
            field=models.CharField(db_default='', default='', max_length=300),
        ),
    ]
