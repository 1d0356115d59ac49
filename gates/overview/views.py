"""Pages that show several wings at once."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Lead to the list of plans."""
    return redirect("plans")


@require_safe
@login_required
def plans(request: HttpRequest) -> HttpResponse:
    """List the newest plans of the reader's projects."""
    return render(request, "base.html")
