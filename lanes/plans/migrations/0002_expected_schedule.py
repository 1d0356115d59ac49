import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_plans', '0001_initial'),
        ('lanes_projects', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='ExpectedSchedule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('suite_name', models.CharField(max_length=64)),
                ('cron', models.CharField(max_length=100)),
                ('timezone', models.CharField(help_text='A name of the IANA database.', max_length=64)),
                ('grace_minutes', models.PositiveIntegerField(help_text='How long after its time a nightly may be registered.')),
                ('is_paused', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField()),
                ('judged_until', models.DateTimeField(help_text="Each time that was due up to here was looked at, or is nobody's concern.")),
                ('missed_since', models.DateTimeField(help_text='The first of the due times in a row without a plan.', null=True)),
                ('missed_count', models.PositiveIntegerField(default=0, help_text='How many they are.')),
                ('noticed_due_at', models.DateTimeField(help_text='The due time of the newest notice about them.', null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='schedules', to='lanes_projects.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'suite_name'), name='schedule_once_per_suite'), models.CheckConstraint(condition=models.Q(models.Q(('missed_count', 0), ('missed_since__isnull', True)), models.Q(('missed_count__gt', 0), ('missed_since__isnull', False)), _connector='OR'), name='schedule_missed_since_when_missed')],
            },
        ),
    ]
