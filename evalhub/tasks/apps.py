"""Django's registration of the task floor."""

from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "evalhub.tasks"
    label = "evalhub_tasks"
