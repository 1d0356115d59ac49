"""Endpoints of this room."""

from django.urls import path
from django.views.decorators.debug import sensitive_post_parameters

from lanes.projects.api import channels, notices, publishers, token, tokens

_PROJECT = "projects/<project:project>/"

urlpatterns = [
    path(
        "token",
        sensitive_post_parameters("subject_token")(token.TokenEndpoint.as_view()),
        name="api-token",
    ),
    path(
        f"{_PROJECT}publishers",
        publishers.PublishersEndpoint.as_view(),
        name="api-publishers",
    ),
    path(
        f"{_PROJECT}publishers/<int:number>",
        publishers.PublisherEndpoint.as_view(),
        name="api-publisher",
    ),
    path(f"{_PROJECT}tokens", tokens.TokensEndpoint.as_view(), name="api-tokens"),
    path(
        f"{_PROJECT}tokens/<int:number>",
        tokens.StaticTokenEndpoint.as_view(),
        name="api-static-token",
    ),
    path(f"{_PROJECT}refusals", publishers.RefusalsEndpoint.as_view(), name="api-refusals"),
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
