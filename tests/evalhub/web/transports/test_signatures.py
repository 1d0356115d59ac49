"""The signature of a webhook, against a known answer of the standard."""

import base64
from datetime import UTC, datetime

from evalhub.web.transports.signatures import new_secret, signed_headers


def test_signature_is_that_of_the_standard() -> None:
    # The example of the Standard Webhooks specification and of its libraries' tests.
    headers = signed_headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        content=b'{"test": 2432232314}',
        at=datetime.fromtimestamp(1614265330, UTC),
    )

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_secrets_differ_and_have_256_bits() -> None:
    first, second = new_secret(), new_secret()

    assert first != second
    assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32
