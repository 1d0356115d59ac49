"""Django's registration of this app."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "evalhub.demo"
    label = "evalhub_demo"
