"""Pages of this room."""

from django.urls import path

from lanes.projects.views import channels, feeds, notices, publishers, sign_in, tokens

_NOTICES = "projects/<project:project>/notices/"

urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/link/<str:secret>/", sign_in.sign_in_link, name="sign-in-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("notices/", notices.overview, name="notice-overview"),
    path(_NOTICES, notices.notice_list, name="notices"),
    path(f"{_NOTICES}<int:number>/", notices.notice, name="notice"),
    path(f"{_NOTICES}<int:number>/acknowledge/", notices.acknowledge, name="notice-acknowledge"),
    path("projects/<project:project>/notices.atom", feeds.feed, name="notice-feed"),
    path(f"{_NOTICES}feed/make/", feeds.make_link, name="notice-feed-make"),
    path(f"{_NOTICES}feed/revoke/", feeds.revoke_link, name="notice-feed-revoke"),
    path(
        "projects/<project:project>/publishers/",
        publishers.publisher_list,
        name="publishers",
    ),
    path(
        "projects/<project:project>/publishers/<int:number>/remove/",
        publishers.remove_publisher,
        name="publisher-remove",
    ),
    path("projects/<project:project>/tokens/", tokens.token_list, name="tokens"),
    path(
        "projects/<project:project>/tokens/<int:number>/revoke/",
        tokens.revoke_token,
        name="token-revoke",
    ),
    path(f"{_NOTICES}channels/", channels.channel_list, name="notice-channels"),
    path(f"{_NOTICES}channels/<slug:name>/", channels.channel, name="notice-channel"),
    path(
        f"{_NOTICES}channels/<slug:name>/test/",
        channels.test_channel,
        name="notice-channel-test",
    ),
    path(
        f"{_NOTICES}channels/<slug:name>/disable/",
        channels.disable_channel,
        name="notice-channel-disable",
    ),
]
