"""Django's registration of this app."""

from django.apps import AppConfig


class BackupConfig(AppConfig):
    name = "evalhub.backup"
    label = "evalhub_backup"
