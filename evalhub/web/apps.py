"""Django's registration of the web floor."""

from django.apps import AppConfig
from django.conf import settings

from evalhub.web.transports import addresses


class WebConfig(AppConfig):
    name = "evalhub.web"
    label = "evalhub_web"

    def ready(self) -> None:
        """Refuse to start with a list of hosts that is not one, rather than to fail at the first webhook."""
        addresses.allowance(settings.WEBHOOK_HOSTS)
