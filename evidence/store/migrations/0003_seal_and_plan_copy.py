import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evidence_store', '0002_storage_fault'),
        ('lanes_plans', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Seal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('segments', models.PositiveIntegerField()),
                ('digest', models.CharField(help_text='Over the seq and sha256 of each segment.', max_length=71)),
                ('sealed_at', models.DateTimeField()),
                ('stored_at', models.DateTimeField(help_text='When its object was seen; a sweep writes absent ones.', null=True)),
                ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='seal', to='lanes_plans.attempt')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('stored_at__isnull', True)), fields=['sealed_at'], name='seal_without_object')],
            },
        ),
        migrations.CreateModel(
            name='PlanCopy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seen_version', models.PositiveBigIntegerField(default=0, help_text="Of the plan's row when `state.json` was written; see queries.")),
                ('rebuild_counted', models.PositiveIntegerField(help_text="While the rows are being made again: how many segments the plan's row has seen.", null=True)),
                ('plan', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='copy', to='lanes_plans.plan')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('rebuild_counted__isnull', False)), fields=['plan'], name='plan_being_rebuilt')],
            },
        ),
        migrations.AddField(
            model_name='refusal',
            name='stored_at',
            field=models.DateTimeField(help_text='Of a whole segment: when its reason was seen as an object; a sweep writes absent ones.', null=True),
        ),
    ]
