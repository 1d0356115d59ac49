import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_projects', '0004_feed_link'),
    ]

    operations = [
        migrations.CreateModel(
            name='IssuerKeys',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=500, unique=True)),
                ('document', models.TextField(default='', help_text='The JWKS; empty before the first.')),
                ('fetched_at', models.DateTimeField(help_text='Of what `document` was read.', null=True)),
                ('asked_at', models.DateTimeField(null=True)),
                ('answered_at', models.DateTimeField(null=True)),
                ('error', models.TextField(default='', help_text='Why the newest try gave no keys.')),
            ],
        ),
        migrations.CreateModel(
            name='RequestCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=100, unique=True)),
                ('began_at', models.DateTimeField(db_index=True)),
                ('count', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='UsedIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(help_text='Of issuer and jti.', max_length=64, unique=True)),
                ('expires_at', models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.AddField(
            model_name='token',
            name='source',
            field=models.JSONField(help_text='evalhub.protocol.identity.VerifiedSource.', null=True),
        ),
        migrations.CreateModel(
            name='TrustedPublisher',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('repository_id', models.BigIntegerField()),
                ('repository_owner_id', models.BigIntegerField()),
                ('workflow', models.CharField(help_text='.github/workflows/FILE of the caller.', max_length=200)),
                ('reusable_workflow', models.CharField(default='', help_text='What the job is made of; empty: of `workflow` itself.', max_length=500)),
                ('environment', models.CharField(default='', help_text='Empty: any, or none.', max_length=500)),
                ('refs', models.JSONField(default=list, help_text='Patterns; empty: every ref.')),
                ('may_put_documents', models.BooleanField(default=False, help_text='Suite and policy, from the protected default branch.')),
                ('created_at', models.DateTimeField()),
                ('last_used_at', models.DateTimeField(null=True)),
                ('removed_at', models.DateTimeField(null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='publishers', to='lanes_projects.project')),
            ],
        ),
        migrations.AddField(
            model_name='token',
            name='publisher',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='tokens', to='lanes_projects.trustedpublisher'),
        ),
        migrations.CreateModel(
            name='SpeakerRefusal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('code', models.CharField(max_length=60)),
                ('detail', models.TextField()),
                ('is_signed', models.BooleanField()),
                ('address', models.CharField(max_length=64)),
                ('claims', models.JSONField(default=dict)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='refusals', to='lanes_projects.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', 'is_signed', '-id'], name='refusal_newest_of_project')],
            },
        ),
        migrations.AddIndex(
            model_name='trustedpublisher',
            index=models.Index(condition=models.Q(('removed_at__isnull', True)), fields=['repository_id'], name='publisher_of_repository'),
        ),
        migrations.AddConstraint(
            model_name='trustedpublisher',
            constraint=models.UniqueConstraint(condition=models.Q(('removed_at__isnull', True)), fields=('project', 'workflow', 'reusable_workflow', 'environment'), name='publisher_once_in_use'),
        ),
    ]
