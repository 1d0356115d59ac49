import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('lanes_projects', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Plan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=71, unique=True)),
                ('document', models.TextField(help_text='RFC 8785 text; its sha256 is the digest.')),
                ('kind', models.CharField(max_length=10)),
                ('suite_name', models.CharField(max_length=64)),
                ('suite_digest', models.CharField(max_length=71)),
                ('event', models.CharField(max_length=16)),
                ('ref', models.CharField(max_length=500, null=True)),
                ('pull_request', models.BigIntegerField(null=True)),
                ('head_sha', models.CharField(max_length=40, null=True)),
                ('tested_sha', models.CharField(max_length=40, null=True)),
                ('base_sha', models.CharField(max_length=40, null=True)),
                ('workflow_run_id', models.BigIntegerField(null=True)),
                ('run_count', models.PositiveIntegerField(help_text='Run keys of all lanes.')),
                ('is_verified', models.BooleanField(default=False)),
                ('state', models.CharField(default='REGISTERED', max_length=10)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('inputs_version', models.PositiveBigIntegerField(default=1)),
                ('concluded_version', models.PositiveBigIntegerField(default=0, help_text='The inputs_version that the newest conclusion saw; 0 before the first.')),
                ('registered_by', models.CharField(max_length=200)),
                ('registered_at', models.DateTimeField()),
                ('deadline_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('superseded_at', models.DateTimeField(null=True)),
                ('cancelled_at', models.DateTimeField(null=True)),
                ('concluded_at', models.DateTimeField(null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='plans', to='lanes_projects.project')),
            ],
        ),
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('kind', models.CharField(max_length=10)),
                ('run_count', models.PositiveIntegerField()),
                ('is_required', models.BooleanField()),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='lanes', to='lanes_plans.plan')),
            ],
        ),
        migrations.CreateModel(
            name='PolicyVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=71)),
                ('document', models.TextField(help_text='RFC 8785 text.')),
                ('registered_at', models.DateTimeField()),
                ('current_since', models.DateTimeField()),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='lanes_projects.project')),
            ],
        ),
        migrations.AddField(
            model_name='plan',
            name='policy',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='plans', to='lanes_plans.policyversion'),
        ),
        migrations.CreateModel(
            name='SuiteVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=71)),
                ('document', models.TextField(help_text='RFC 8785 text.')),
                ('registered_at', models.DateTimeField()),
                ('current_since', models.DateTimeField(help_text='Registering an older version again makes it current.')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='suites', to='lanes_projects.project')),
            ],
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='att_…, as the wire names it.', max_length=64, unique=True)),
                ('number', models.PositiveIntegerField()),
                ('state', models.CharField(default='OPEN', max_length=10)),
                ('opened_at', models.DateTimeField()),
                ('last_heard_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(help_text='Sealed, superseded or cancelled.', null=True)),
                ('phase', models.CharField(default='', max_length=500)),
                ('done', models.PositiveBigIntegerField(default=0)),
                ('total', models.PositiveBigIntegerField(default=0)),
                ('lane', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='lanes_plans.lane')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('lane', 'number'), name='attempt_number_once_per_lane'), models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('state__in', ['OPEN', 'SILENT'])), models.Q(('ended_at__isnull', False), ('state__in', ['SEALED', 'SUPERSEDED', 'CANCELLED'])), _connector='OR'), name='attempt_ended_when_not_accepting'), models.CheckConstraint(condition=models.Q(('last_heard_at__gte', models.F('opened_at'))), name='attempt_heard_after_opening')],
            },
        ),
        migrations.AddConstraint(
            model_name='lane',
            constraint=models.UniqueConstraint(fields=('plan', 'name'), name='lane_once_per_plan'),
        ),
        migrations.AddIndex(
            model_name='policyversion',
            index=models.Index(fields=['project', '-current_since', '-id'], name='policy_current'),
        ),
        migrations.AddConstraint(
            model_name='policyversion',
            constraint=models.UniqueConstraint(fields=('project', 'digest'), name='policy_version_once'),
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(fields=['project', '-registered_at', '-id'], name='plan_newest_of_project'),
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(fields=['project', 'suite_name', 'head_sha'], name='plan_of_commit'),
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(fields=['workflow_run_id'], name='plan_of_workflow_run'),
        ),
        migrations.AddIndex(
            model_name='plan',
            index=models.Index(condition=models.Q(('concluded_version__lt', models.F('inputs_version'))), fields=['deadline_at'], name='plan_behind_its_inputs'),
        ),
        migrations.AddIndex(
            model_name='suiteversion',
            index=models.Index(fields=['project', 'name', '-current_since', '-id'], name='suite_current'),
        ),
        migrations.AddConstraint(
            model_name='suiteversion',
            constraint=models.UniqueConstraint(fields=('project', 'name', 'digest'), name='suite_version_once'),
        ),
    ]
