"""Who may speak: projects, members, tokens, CI identities, the audit of what they changed; notices."""

from lanes.projects.models.identities import (
    IssuerKeys,
    RequestCount,
    SpeakerRefusal,
    TrustedPublisher,
    UsedIdentity,
)
from lanes.projects.models.notices import (
    Channel,
    ChannelKind,
    Delivery,
    DeliveryState,
    FeedLink,
    Notice,
    NoticeKind,
    NoticeState,
)
from lanes.projects.models.people import Invitation
from lanes.projects.models.speakers import (
    AuditEntry,
    Membership,
    Project,
    Role,
    Scope,
    SignInLink,
    Token,
    new_salt,
)

__all__ = [
    "AuditEntry",
    "Channel",
    "ChannelKind",
    "Delivery",
    "DeliveryState",
    "FeedLink",
    "Invitation",
    "IssuerKeys",
    "Membership",
    "Notice",
    "NoticeKind",
    "NoticeState",
    "Project",
    "RequestCount",
    "Role",
    "Scope",
    "SignInLink",
    "SpeakerRefusal",
    "Token",
    "TrustedPublisher",
    "UsedIdentity",
    "new_salt",
]
