import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evidence_store', '0005_orphan_round'),
        ('lanes_plans', '0008_plan_behind_its_copy'),
        ('lanes_projects', '0004_feed_link'),
    ]

    operations = [
        migrations.CreateModel(
            name='Retention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('record_days', models.PositiveIntegerField(null=True)),
                ('bulk_days', models.PositiveIntegerField(null=True)),
                ('changed_by', models.CharField(max_length=200)),
                ('changed_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='refusal',
            name='gone_at',
            field=models.DateTimeField(help_text='Of what was removed: when its bytes were seen to be gone.', null=True),
        ),
        migrations.AddField(
            model_name='refusal',
            name='is_counted',
            field=models.BooleanField(db_default=False, default=False, help_text="Whether the plan's storage has counted it."),
        ),
        migrations.AddField(
            model_name='segment',
            name='gone_at',
            field=models.DateTimeField(help_text='Of what was removed: when its bytes were seen to be gone.', null=True),
        ),
        migrations.AddField(
            model_name='segment',
            name='is_counted',
            field=models.BooleanField(db_default=False, default=False, help_text="Whether the plan's storage has counted it."),
        ),
        migrations.CreateModel(
            name='Pin',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('holder', models.CharField(help_text='`maintainer`, or what needs it.', max_length=100)),
                ('reason', models.CharField(max_length=2000)),
                ('pinned_by', models.CharField(max_length=200)),
                ('pinned_at', models.DateTimeField()),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pins', to='lanes_plans.plan')),
            ],
        ),
        migrations.CreateModel(
            name='PlanStorage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stored_class', models.CharField(max_length=7)),
                ('segments', models.PositiveBigIntegerField(default=0, help_text='Whose bytes are there.')),
                ('size_bytes', models.PositiveBigIntegerField(default=0)),
                ('removed_segments', models.PositiveBigIntegerField(default=0)),
                ('removed_bytes', models.PositiveBigIntegerField(default=0)),
                ('last_received_at', models.DateTimeField(help_text='From when on their age counts.')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='storage', to='lanes_plans.plan')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='lanes_projects.project')),
            ],
        ),
        migrations.CreateModel(
            name='Removal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='rem_…, as tombstones name it.', max_length=64, unique=True)),
                ('cause', models.CharField(max_length=9)),
                ('scope', models.CharField(max_length=7)),
                ('subject', models.CharField(help_text='What of the plan; empty for all of it.', max_length=500)),
                ('ordered_by', models.CharField(max_length=200)),
                ('reason', models.CharField(max_length=2000)),
                ('ordered_at', models.DateTimeField()),
                ('segments', models.PositiveIntegerField(help_text='How many it removes.')),
                ('size_bytes', models.PositiveBigIntegerField()),
                ('finished_at', models.DateTimeField(help_text='When all bytes were seen to be gone.', null=True)),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='removals', to='lanes_plans.plan')),
            ],
        ),
        migrations.AddField(
            model_name='refusal',
            name='removal',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='refusals_removed', to='evidence_store.removal'),
        ),
        migrations.AddField(
            model_name='segment',
            name='removal',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='segments_removed', to='evidence_store.removal'),
        ),
        migrations.AddField(
            model_name='retention',
            name='project',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='retention', to='lanes_projects.project'),
        ),
        migrations.AddIndex(
            model_name='pin',
            index=models.Index(fields=['holder'], name='pin_of_holder'),
        ),
        migrations.AddConstraint(
            model_name='pin',
            constraint=models.UniqueConstraint(fields=('plan', 'holder'), name='pin_once_per_holder'),
        ),
        migrations.AddIndex(
            model_name='planstorage',
            index=models.Index(condition=models.Q(('segments__gt', 0)), fields=['project', 'stored_class', 'last_received_at', 'id'], name='storage_oldest_of_class'),
        ),
        migrations.AddConstraint(
            model_name='planstorage',
            constraint=models.UniqueConstraint(fields=('plan', 'stored_class'), name='storage_once_per_class'),
        ),
        migrations.AddIndex(
            model_name='removal',
            index=models.Index(condition=models.Q(('finished_at__isnull', True)), fields=['ordered_at', 'id'], name='removal_unfinished'),
        ),
        migrations.AddIndex(
            model_name='removal',
            index=models.Index(fields=['plan', '-id'], name='removal_newest_of_plan'),
        ),
        migrations.AddConstraint(
            model_name='removal',
            constraint=models.CheckConstraint(condition=models.Q(('cause__in', ['RETENTION', 'PURGE']), ('scope__in', ['PLAN', 'ATTEMPT', 'SEGMENT', 'RUN', 'CLASS'])), name='removal_cause_and_scope_known'),
        ),
    ]
