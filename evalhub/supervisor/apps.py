"""Django's registration of this app."""

from django.apps import AppConfig


class SupervisorConfig(AppConfig):
    name = "evalhub.supervisor"
    label = "evalhub_supervisor"
