from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evidence_store', '0004_refusal_without_object'),
    ]

    operations = [
        migrations.CreateModel(
            name='OrphanRound',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.BigIntegerField(default=0, help_text='The last attempt that was looked at.')),
                ('began_at', models.DateTimeField()),
                ('previous_began_at', models.DateTimeField(help_text='What was heard well before that was looked at in the round before.', null=True)),
            ],
        ),
    ]
