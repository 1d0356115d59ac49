"""The WSGI application that the web server loads."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")
application = get_wsgi_application()
# Every view is loaded before a request is taken: what cannot be loaded ends the process at its start,
# where a rollout stops, and the first request does not wait for it.
get_resolver().url_patterns  # noqa: B018
