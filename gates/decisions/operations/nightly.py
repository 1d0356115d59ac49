"""Nightlies: their people are told when one turns out red, and that it is over when one is green."""

from datetime import datetime

from django.db.models import Q
from django.urls import reverse

from gates.decisions.models import Conclusion
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.projects.models import NoticeKind
from lanes.projects.operations import notices
from lanes.projects.queries import notices as notice_queries

_RED = frozenset({"failure", "action_required"})
_GREEN = "success"


def tell_of_nightly(conclusion: Conclusion, *, at: datetime) -> None:
    """Tell of a nightly that became red; where it became green, end what was told of it and before.

    To be called in the transaction that stores the conclusion. Concluded again with the same word
    it is not told of again; with another red word it is. What is neither red nor green
    (`neutral`, by the policy's own wish) is not told of and ends nothing but its own notice. No
    news is a nightly that was imported or cancelled, nor is one of which a later one has been
    concluded or is due to be: that one says how things stand, also after days in which no worker was
    there. Until then a superseded one is told of too, else a row of nightlies of which each is
    overtaken before its deadline would never be heard of.
    """
    plan = conclusion.plan
    if plan.event != "schedule" or plan.is_foreign or plan.cancelled_at is not None:
        return
    word, before = conclusion.conclusion, _word_before(conclusion)
    if word in _RED and word == before:
        return
    own = f"{_key_of(plan)}/"
    notices.resolve_notices(plan.project, kind=NoticeKind.NIGHTLY_RED, key_prefix=own, at=at)
    if word == _GREEN:
        _end_earlier(plan, at=at)
    elif word in _RED and not _is_overtaken(plan, at=at):
        notices.raise_notice(
            plan.project,
            kind=NoticeKind.NIGHTLY_RED,
            # Of the conclusion with which it became red: a nightly may do so more than once.
            key=f"{own}{conclusion.inputs_version}",
            subject=f"Nightly {plan.suite_name}: {word.replace('_', ' ')}",
            detail=f"{conclusion.title.rstrip('.')}. {_place(plan)}",
            path=reverse("plan", args=[plan.digest]),
            at=at,
        )


def _word_before(conclusion: Conclusion) -> str | None:
    earlier = Conclusion.objects.filter(
        plan=conclusion.plan_id, inputs_version__lt=conclusion.inputs_version
    )
    words = earlier.order_by("-inputs_version").values_list("conclusion", flat=True)
    return words.first()


def _is_overtaken(plan: Plan, *, at: datetime) -> bool:
    later = plan_queries.nightlies(plan.project, plan.suite_name).filter(
        Q(registered_at__gt=plan.registered_at)
        | Q(registered_at=plan.registered_at, pk__gt=plan.pk),
        Q(concluded_at__isnull=False) | Q(deadline_at__lte=at),
        cancelled_at__isnull=True,
    )
    return later.exists()


def _end_earlier(plan: Plan, *, at: datetime) -> None:
    """End what was told of nightlies up to this one; what a later one was told of stands."""
    unresolved = notice_queries.unresolved_notices(plan.project, NoticeKind.NIGHTLY_RED)
    told = unresolved.filter(key__startswith=f"{plan.suite_name}/")
    by_digest = {key.split("/")[1]: key for key in told.values_list("key", flat=True)}
    nightlies = plan_queries.nightlies(plan.project, plan.suite_name)
    earlier = nightlies.filter(digest__in=by_digest, registered_at__lte=plan.registered_at)
    for digest in earlier.values_list("digest", flat=True):
        notices.resolve_notice(
            plan.project, kind=NoticeKind.NIGHTLY_RED, key=by_digest[digest], at=at
        )


def _key_of(plan: Plan) -> str:
    return f"{plan.suite_name}/{plan.digest}"


def _place(plan: Plan) -> str:
    commit = f" at commit {plan.tested_sha[:12]}" if plan.tested_sha else ""
    return f"Plan {plan.digest.removeprefix('sha256:')[:12]}{commit}, registered at {plan.registered_at:%Y-%m-%d %H:%M} UTC."
