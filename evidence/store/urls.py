"""Pages of this room: what is stored, for how long, and what must go."""

from django.urls import path

from evidence.store import views

urlpatterns = [
    path("projects/<project:project>/storage/", views.storage, name="storage"),
    path("plans/<digest:digest>/pin/", views.pin, name="plan-pin"),
    path("plans/<digest:digest>/unpin/", views.unpin, name="plan-unpin"),
    path("plans/<digest:digest>/purge/", views.purge, name="plan-purge"),
]
