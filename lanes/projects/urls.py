"""Pages of this room."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from lanes.projects.views import (
    account,
    audit,
    channels,
    feeds,
    invitations,
    members,
    notices,
    publishers,
    sign_in,
    tokens,
)

_PROJECT = "projects/<project:project>/"
_NOTICES = "projects/<project:project>/notices/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/link/<str:secret>/", sign_in.sign_in_link, name="sign-in-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("account/", account.account, name="account"),
    path("account/sign-out/", account.sign_out_everywhere, name="sign-out-everywhere"),
    path("invitations/<str:secret>/", invitations.invitation_link, name="invitation-link"),
    path("invitation/", invitations.invitation, name="invitation"),
    path(f"{_PROJECT}members/", members.member_list, name="members"),
    path(f"{_PROJECT}members/<int:number>/role/", members.change_role, name="member-role"),
    path(f"{_PROJECT}members/<int:number>/remove/", members.remove_member, name="member-remove"),
    path(
        f"{_PROJECT}invitations/<int:number>/revoke/",
        members.revoke_invitation,
        name="invitation-revoke",
    ),
    path(f"{_PROJECT}audit/", audit.project_audit, name="audit"),
    path(f"{_PROJECT}audit/file", audit.project_audit_file, name="audit-file"),
    path("audit/", audit.instance_audit, name="instance-audit"),
    path("audit/file", audit.instance_audit_file, name="instance-audit-file"),
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
if settings.GITHUB_SIGN_IN:
    # Loaded by its name: the models that it needs are there only where it is configured.
    urlpatterns += [path("sign-in/github/", include("lanes.projects.views.github"))]
