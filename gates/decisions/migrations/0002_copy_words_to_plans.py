from django.db import migrations, transaction
from django.db.models import F, OuterRef, Subquery

PLANS_AT_ONCE = 1_000


def copy_words(apps, schema_editor):
    """Give every concluded plan the word of its newest conclusion, some plans in each transaction."""
    plans = apps.get_model("lanes_plans", "Plan").objects
    conclusions = apps.get_model("gates_decisions", "Conclusion").objects
    newest = conclusions.filter(plan=OuterRef("pk")).order_by("-inputs_version")
    last = plans.order_by("-pk").values_list("pk", flat=True).first() or 0
    for start in range(0, last + 1, PLANS_AT_ONCE):
        some = plans.filter(pk__gte=start, pk__lt=start + PLANS_AT_ONCE)
        with transaction.atomic():
            some.filter(conclusion_version__lt=F("concluded_version")).update(
                conclusion=Subquery(newest.values("conclusion")[:1]),
                conclusion_version=F("concluded_version"),
            )


class Migration(migrations.Migration):

    # Each transaction holds a thousand plans only: those that run go on being written.
    atomic = False

    dependencies = [
        ('gates_decisions', '0001_initial'),
        ('lanes_plans', '0004_plan_conclusion'),
    ]

    operations = [
        migrations.RunPython(copy_words, migrations.RunPython.noop),
    ]
