import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('lanes_plans', '0008_plan_behind_its_copy'),
    ]

    operations = [
        migrations.AddField(
            model_name='plan',
            name='is_foreign',
            field=models.BooleanField(db_default=False, default=False, help_text='It was imported: it has no check, spends nothing and governs nothing here.'),
        ),
        migrations.AddField(
            model_name='policyversion',
            name='is_foreign',
            field=models.BooleanField(db_default=False, default=False, help_text='It came with a foreign plan, and was never in force in this project.'),
        ),
        migrations.CreateModel(
            name='Origin',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('project', models.CharField(help_text='As the plan itself names it.', max_length=200)),
                ('instance', models.CharField(help_text='The address of the server that it was exported from.', max_length=500, null=True)),
                ('archive_sha256', models.CharField(max_length=71)),
                ('exported_at', models.DateTimeField()),
                ('imported_at', models.DateTimeField()),
                ('imported_by', models.CharField(max_length=200)),
                ('document', models.TextField(help_text='RFC 8785 text.')),
                ('plan', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='origin', to='lanes_plans.plan')),
            ],
        ),
    ]
