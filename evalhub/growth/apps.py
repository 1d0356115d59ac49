"""Django's registration of this app."""

from django.apps import AppConfig


class GrowthConfig(AppConfig):
    name = "evalhub.growth"
    label = "evalhub_growth"
