"""Django's registration of this room."""

from django.apps import AppConfig


class LanesProjectsConfig(AppConfig):
    name = "lanes.projects"
    label = "lanes_projects"
