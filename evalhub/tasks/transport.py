"""Redis as kombu speaks to it, with one difference: a connection that was lost is told as lost."""

from typing import Any

from kombu.transport import redis
from redis.exceptions import ConnectionError as RedisConnectionError


class Channel(redis.Channel):
    """A channel that outlives its connection when the broker goes away, for its last messages.

    kombu 5.7 asks such a channel where its broker is, gets an AttributeError, which nobody expects
    there, and the worker ends. A connection error it expects, and connects again.
    """

    def _connparams(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        if self.connection.client is None:
            raise RedisConnectionError("The connection to the broker was lost.")
        parameters: dict[str, Any] = super()._connparams(*arguments, **named)  # type: ignore[misc]
        return parameters


class Transport(redis.Transport):
    """The transport of such channels."""

    Channel = Channel
