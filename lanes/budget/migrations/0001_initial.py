import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('lanes_projects', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('credential_fingerprint', models.CharField(max_length=71, null=True)),
                ('limit_microusd', models.BigIntegerField()),
                ('created_at', models.DateTimeField()),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pools', to='lanes_projects.project')),
            ],
        ),
        migrations.CreateModel(
            name='SubAllocation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('plan', models.CharField(max_length=71)),
                ('lane', models.CharField(max_length=64)),
                ('limit_microusd', models.BigIntegerField()),
                ('spent_microusd', models.BigIntegerField(default=0, help_text="Sum of the lane's ledger, kept in the transaction that settles a call.")),
                ('opened_at', models.DateTimeField()),
                ('released_at', models.DateTimeField(null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='lanes_budget.pool')),
            ],
        ),
        migrations.CreateModel(
            name='UnknownCost',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('plan', models.CharField(db_index=True, max_length=71)),
                ('lane', models.CharField(max_length=64)),
                ('attempt', models.CharField(max_length=64)),
                ('path', models.CharField(max_length=1000)),
                ('lines', models.PositiveIntegerField()),
                ('noted_at', models.DateTimeField()),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='unknown_costs', to='lanes_projects.project')),
            ],
        ),
        migrations.CreateModel(
            name='LedgerEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('plan', models.CharField(max_length=71)),
                ('lane', models.CharField(max_length=64)),
                ('attempt', models.CharField(max_length=64)),
                ('call_id', models.UUIDField()),
                ('rubric', models.CharField(max_length=64)),
                ('stage', models.CharField(max_length=12)),
                ('cost_microusd', models.BigIntegerField(null=True)),
                ('cost_source', models.CharField(max_length=12)),
                ('conflicting_microusd', models.BigIntegerField(help_text='Another cost that was later claimed for the same call.', null=True)),
                ('settled_at', models.DateTimeField()),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ledger', to='lanes_projects.project')),
            ],
            options={
                'indexes': [models.Index(fields=['plan', 'lane'], name='ledger_of_plan')],
                'constraints': [models.UniqueConstraint(fields=('project', 'call_id'), name='call_settles_once')],
            },
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.UniqueConstraint(fields=('project', 'name'), name='pool_once_per_project'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('limit_microusd__gte', 0)), name='pool_limit_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='suballocation',
            constraint=models.UniqueConstraint(fields=('plan', 'lane'), name='allocation_once_per_lane'),
        ),
    ]
