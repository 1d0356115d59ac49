import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_projects', '0007_find_static_tokens'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('VIEWER', 'Viewer'), ('TRIAGER', 'Triager'), ('MAINTAINER', 'Maintainer')], max_length=10)),
                ('guest', models.CharField(help_text='Whom the maintainer meant, in words.', max_length=200)),
                ('email', models.EmailField(default='', help_text='Where the link was sent; empty: nowhere.', max_length=254)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('made_by', models.CharField(help_text='As the audit names who it was.', max_length=200)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(null=True)),
                ('accepted_at', models.DateTimeField(null=True)),
                ('accepted_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='invitations', to='lanes_projects.project')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('revoked_at__isnull', True), ('accepted_at__isnull', True), _connector='OR'), name='invitation_has_one_end'), models.CheckConstraint(condition=models.Q(('accepted_at__isnull', True), ('accepted_by__isnull', False), _connector='OR'), name='invitation_accepted_by_somebody')],
            },
        ),
    ]
