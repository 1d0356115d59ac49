"""Pages of this room."""

from django.urls import path

from evidence.reader import views

urlpatterns = [
    path("plans/<digest:digest>/runs/", views.plan_runs, name="runs"),
    path("plans/<digest:digest>/lanes/<str:lane>/", views.lane, name="lane"),
    path("plans/<digest:digest>/quarantine/", views.quarantine, name="quarantine"),
    path("quarantine/<int:refusal_id>/", views.quarantine_file, name="quarantine-file"),
    path(
        "quarantine/<int:refusal_id>/unmasked",
        views.quarantine_unmasked,
        name="quarantine-unmasked",
    ),
    path("runs/<int:run_id>/turns/<int:number>/", views.turn, name="run-turn"),
    path("items/<int:item_id>/", views.item, name="item"),
    path("items/<int:item_id>/raw", views.item_file, name="item-file"),
    path("items/<int:item_id>/unmasked", views.item_unmasked, name="item-unmasked"),
]
