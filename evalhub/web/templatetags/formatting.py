"""How values are written on pages."""

from django import template

register = template.Library()
