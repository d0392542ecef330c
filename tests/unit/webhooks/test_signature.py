"""Signatures are those of the Standard Webhooks specification."""

import base64
from datetime import UTC, datetime

from lethelog.handlers.webhooks.signature import SECRET_BYTES, new_secret, signed_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
AT = datetime.fromtimestamp(1_614_265_330, UTC)


def test_a_signature_is_that_of_the_published_example():
    """The vector of the specification's own libraries (``sign function works``)."""
    headers = signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, b'{"test": 2432232314}', [SECRET])
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_two_secrets_sign_beside_each_other_the_newest_first():
    other = "whsec_" + base64.b64encode(b"o" * 32).decode()
    [of_one] = [signed_headers("m", AT, b"{}", [SECRET])["webhook-signature"]]
    [of_other] = [signed_headers("m", AT, b"{}", [other])["webhook-signature"]]
    assert signed_headers("m", AT, b"{}", [other, SECRET])["webhook-signature"] == f"{of_other} {of_one}"
    assert of_one != of_other


def test_a_new_secret_is_random_and_of_the_length_that_the_specification_asks_for():
    secrets = {new_secret() for _ in range(20)}
    assert len(secrets) == 20
    for one in secrets:
        assert len(base64.b64decode(one.removeprefix("whsec_"))) == SECRET_BYTES and 24 <= SECRET_BYTES <= 64
