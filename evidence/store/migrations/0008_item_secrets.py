from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evidence_store', '0007_find_what_is_counted_and_removed'),
    ]

    operations = [
        migrations.AddField(
            model_name='item',
            name='secrets',
            field=models.CharField(help_text='Secrets found in it, as `kind:number kind:number`; null until it was looked at.', max_length=200, null=True),
        ),
    ]
