import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('lanes_projects', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='MatchRate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('suite_name', models.CharField(max_length=64)),
                ('simulator', models.CharField(max_length=64)),
                ('build', models.CharField(max_length=71)),
                ('plan', models.CharField(max_length=71)),
                ('registered_at', models.DateTimeField(help_text='When the plan was registered.')),
                ('probe_set', models.CharField(max_length=71)),
                ('matched', models.PositiveIntegerField()),
                ('status_only', models.PositiveIntegerField()),
                ('mismatched', models.PositiveIntegerField()),
                ('unverified', models.PositiveIntegerField()),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='match_rates', to='lanes_projects.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', 'suite_name', 'simulator', 'build', '-registered_at', '-id'], name='match_rate_newest_of_build')],
                'constraints': [models.UniqueConstraint(fields=('plan', 'simulator', 'build'), name='match_rate_once_per_build')],
            },
        ),
        migrations.CreateModel(
            name='ProbeResult',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('suite_name', models.CharField(max_length=64)),
                ('simulator', models.CharField(max_length=64)),
                ('build', models.CharField(max_length=71)),
                ('plan', models.CharField(max_length=71)),
                ('lane', models.CharField(max_length=64)),
                ('attempt', models.CharField(max_length=64)),
                ('probe', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=71)),
                ('category', models.CharField(max_length=200)),
                ('source', models.CharField(max_length=10)),
                ('result', models.CharField(max_length=12)),
                ('paths', models.JSONField(help_text='Where the answers differ.')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='probe_results', to='lanes_projects.project')),
            ],
            options={
                'indexes': [models.Index(fields=['plan', 'result'], name='probe_result_of_plan')],
                'constraints': [models.UniqueConstraint(fields=('attempt', 'probe'), name='probe_once_per_attempt'), models.CheckConstraint(condition=models.Q(('result__in', ['match', 'status_only', 'mismatch', 'unverified'])), name='probe_result_is_a_word_of_the_wire')],
            },
        ),
    ]
