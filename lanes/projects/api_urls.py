"""Endpoints of this room."""

from django.urls import path

from lanes.projects.api import channels, notices

_PROJECT = "projects/<project:project>/"

urlpatterns = [
    path(f"{_PROJECT}notices", notices.NoticesEndpoint.as_view(), name="api-notices"),
    path(f"{_PROJECT}notices/<int:number>", notices.NoticeEndpoint.as_view(), name="api-notice"),
    path(
        f"{_PROJECT}notices/<int:number>/acknowledge",
        notices.AcknowledgeEndpoint.as_view(),
        name="api-notice-acknowledge",
    ),
    path(f"{_PROJECT}channels", channels.ChannelsEndpoint.as_view(), name="api-channels"),
    path(f"{_PROJECT}channels/<str:name>", channels.ChannelEndpoint.as_view(), name="api-channel"),
    path(
        f"{_PROJECT}channels/<str:name>/test",
        channels.ChannelTestEndpoint.as_view(),
        name="api-channel-test",
    ),
]
