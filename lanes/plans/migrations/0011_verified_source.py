import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_plans', '0010_plan_cancelled_by'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='verified_source',
            field=models.JSONField(help_text="What the CI job's identity said; null for a static token.", null=True),
        ),
        migrations.CreateModel(
            name='JobBinding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('repository_id', models.BigIntegerField()),
                ('workflow_run_id', models.BigIntegerField()),
                ('run_attempt', models.BigIntegerField()),
                ('job', models.BigIntegerField(help_text="The job's own check run.")),
                ('bound_at', models.DateTimeField()),
                ('lane', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='job_bindings', to='lanes_plans.lane')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('repository_id', 'workflow_run_id', 'run_attempt', 'job'), name='binding_one_lane_per_job'), models.UniqueConstraint(fields=('lane', 'repository_id', 'workflow_run_id', 'run_attempt'), name='binding_one_job_per_lane')],
            },
        ),
    ]
