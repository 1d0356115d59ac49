"""Notices as they leave the server, and the channels on which they do."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from evalhub.protocol.scalars import Count, Label, Name, ProjectName, Record, Time

NoticeKindName = Literal["NIGHTLY_RED", "NIGHTLY_ABSENT", "BUDGET", "DRIFT"]
ChannelKindName = Literal["EMAIL", "WEBHOOK", "SLACK", "GITHUB_ISSUE"]


class Notice(Record):
    """Something that people are to know: the body of a webhook, and a row of `GET …/notices`.

    `id` is equal wherever the notice is told; `number` names it in addresses of this server. `kind`
    may be `TEST`, of a channel that somebody tries. `key` names the occurrence: a kind and key come
    only once.
    """

    schema_: Literal["evalhub.notice/1"] = Field(alias="schema")
    id: str
    number: Count
    project: ProjectName
    kind: NoticeKindName | Literal["TEST"]
    key: Label
    subject: str
    detail: str
    state: Literal["OPEN", "ACKNOWLEDGED", "RESOLVED"]
    url: str
    """Where more about its matter is to be seen."""
    notice_url: str
    """The page of the notice itself, where it is acknowledged."""
    raised_at: Time
    acknowledged_at: Time | None
    acknowledged_by: str
    resolved_at: Time | None


class ChannelSettings(Record):
    """Body of `PUT /projects/<project>/channels/<name>`.

    `target` is an e-mail address or a URL, and absent for a rolling issue. For a channel that is
    there already it may be left out, and then stays what it was.
    """

    kind: ChannelKindName
    target: Annotated[str, StringConstraints(max_length=2000)] | None = None
    notices: Annotated[list[NoticeKindName], Field(min_length=1)]
    new_secret: bool = False


class Channel(Record):
    """A channel as the server tells of it: of a URL only the host, of a secret nothing."""

    name: Name
    kind: ChannelKindName
    place: str
    notices: list[NoticeKindName]
    created_at: Time
    disabled_at: Time | None
    failures: Count
    last_error: str
    last_error_at: Time | None
    last_sent_at: Time | None
    waiting: Count
    """How many notices it owes."""


class KeptChannel(Channel):
    """Answer of `PUT …/channels/<name>`; `secret` is there when it is new, and never again."""

    secret: str | None
