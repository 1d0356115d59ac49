"""Django's registration of the web floor."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "evalhub.web"
    label = "evalhub_web"
