"""Pages: the channels of a project, for its maintainers."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from evalhub.web.access import signed_in
from lanes.projects.forms import CarriedForm, ChannelForm, NewChannelForm, SignedChannelForm
from lanes.projects.models import Channel, ChannelKind, Project, Role
from lanes.projects.operations import channels as operations
from lanes.projects.operations.channels import ChannelConflictError, InvalidChannelError
from lanes.projects.queries import actors, channels, members

_FORMS: dict[str, type[CarriedForm]] = {
    ChannelKind.WEBHOOK: SignedChannelForm,
    ChannelKind.GITHUB_ISSUE: CarriedForm,
}


@sensitive_post_parameters("target")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def channel_list(request: HttpRequest, project: str) -> HttpResponse:
    """List a project's channels; make one."""
    found = members.project_for(request.user, project, Role.MAINTAINER)
    if request.method != "POST":
        form = NewChannelForm(initial={"notices": operations.CHOSEN_KINDS}, label_suffix="")
        return _list_page(request, found, form)
    form = NewChannelForm(request.POST, label_suffix="")
    if not form.is_valid():
        return _list_page(request, found, form, status=422)
    name = form.cleaned_data["name"]
    if channels.channels_of(found).filter(name=name).exists():
        form.add_error("name", f"There is a channel {name} already: change that one.")
        return _list_page(request, found, form, status=409)
    try:
        kept = operations.put_channel(
            found,
            name,
            kind=ChannelKind(form.cleaned_data["kind"]),
            target=form.cleaned_data["target"],
            notice_kinds=form.notice_kinds,
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
    except (InvalidChannelError, ChannelConflictError) as error:
        form.add_error(None, error.detail)
        return _list_page(request, found, form, status=error.status)
    if kept.secret is not None:
        return _secret_page(request, kept)
    messages.success(request, f"The channel {name} is in use. Try it with a test.")
    return redirect("notice-channels", project)


@sensitive_post_parameters("target")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def channel(request: HttpRequest, project: str, name: str) -> HttpResponse:
    """Show a channel; change it, which also puts a disabled one into use again."""
    found = _channel_for(request, project, name)
    form_class = _FORMS.get(found.kind, ChannelForm)
    if request.method != "POST":
        form = form_class(initial={"notices": found.notice_kinds}, label_suffix="")
        return _channel_page(request, found, form)
    form = form_class(request.POST, label_suffix="")
    if not form.is_valid():
        return _channel_page(request, found, form, status=422)
    try:
        kept = operations.put_channel(
            found.project,
            name,
            kind=ChannelKind(found.kind),
            target=form.cleaned_data.get("target") or None,
            notice_kinds=form.notice_kinds,
            new_secret=form.cleaned_data.get("new_secret", False),
            actor=actors.actor_of(request),
            at=timezone.now(),
        )
    except (InvalidChannelError, ChannelConflictError) as error:
        form.add_error(None, error.detail)
        return _channel_page(request, found, form, status=error.status)
    if kept.secret is not None:
        return _secret_page(request, kept)
    messages.success(request, f"The channel {name} is in use as you set it.")
    return redirect("notice-channel", project, name)


@require_POST
@signed_in
def test_channel(request: HttpRequest, project: str, name: str) -> HttpResponse:
    """Send a test and show how it fares."""
    found = _channel_for(request, project, name)
    sent = operations.test_channel(found, actor=actors.actor_of(request), at=timezone.now())
    return redirect("notice", project, sent.pk)


@require_POST
@signed_in
def disable_channel(request: HttpRequest, project: str, name: str) -> HttpResponse:
    """End a channel's use."""
    found = _channel_for(request, project, name)
    operations.disable_channel(found, actor=actors.actor_of(request), at=timezone.now())
    messages.success(request, f"The channel {name} is disabled; what it owed is dropped.")
    return redirect("notice-channels", project)


def _channel_for(request: HttpRequest, project: str, name: str) -> Channel:
    found = members.project_for(request.user, project, Role.MAINTAINER)
    return channels.channel_named(found, name)


def _list_page(
    request: HttpRequest, project: Project, form: NewChannelForm, *, status: int = 200
) -> HttpResponse:
    context = {
        "project": project,
        "channels": channels.channels_of(project),
        "form": form,
    }
    return render(request, "lanes/projects/channel_list.html", context, status=status)


def _channel_page(
    request: HttpRequest, channel: Channel, form: CarriedForm, *, status: int = 200
) -> HttpResponse:
    context = {"channel": channel, "form": form}
    return render(request, "lanes/projects/channel_detail.html", context, status=status)


def _secret_page(request: HttpRequest, kept: operations.KeptChannel) -> HttpResponse:
    # Answered at once instead of after a redirect, so that the secret is kept nowhere on the way.
    context = {"channel": kept.channel, "secret": kept.secret}
    return render(request, "lanes/projects/channel_secret.html", context)
