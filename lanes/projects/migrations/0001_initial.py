import django.db.models.deletion
import lanes.projects.models
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='OWNER/NAME', max_length=165, unique=True)),
                ('repository_id', models.BigIntegerField(null=True, unique=True)),
                ('default_branch', models.CharField(max_length=255)),
                ('checks_for_unverified', models.BooleanField(default=False)),
                ('salt', models.CharField(default=lanes.projects.models.new_salt, help_text='Keys the fingerprints that lanes report.', max_length=64)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SignInLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Token',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('prefix', models.CharField(help_text='Shown so that a person can tell tokens apart.', max_length=12)),
                ('name', models.CharField(max_length=100)),
                ('scopes', models.JSONField(default=list)),
                ('attempt', models.CharField(db_index=True, max_length=64, null=True)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField(null=True)),
                ('revoked_at', models.DateTimeField(null=True)),
                ('last_used_at', models.DateTimeField(null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tokens', to='lanes_projects.project')),
            ],
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('VIEWER', 'Viewer'), ('TRIAGER', 'Triager'), ('MAINTAINER', 'Maintainer')], max_length=10)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to='lanes_projects.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'user'), name='membership_once_per_project')],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=200)),
                ('action', models.CharField(max_length=60)),
                ('subject', models.CharField(max_length=300)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='audit', to='lanes_projects.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', '-at', '-id'], name='audit_newest_of_project')],
                'constraints': [models.CheckConstraint(condition=models.Q(('actor', ''), _negated=True), name='audit_names_its_actor')],
            },
        ),
    ]
