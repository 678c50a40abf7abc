"""The webhook that tells an operator of risks."""

import base64
import json

import pytest

from orchestrator.webhook import Notice, Webhook, signature
from tests.support.webhook import Receiver

KEY = b"k" * 24
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
NOTICE = Notice("r-1", "suicide", "high", "classifier", 0.97, "acme", "ada", "mia", "monday", "I want to die.")


def webhook(receiver: Receiver, words: bool = False, pauses_s: tuple[float, ...] = (0, 0)) -> Webhook:
    return Webhook(receiver.url, SECRET, words, clock=lambda: 1_800_000_000.5, pauses_s=pauses_s)


async def test_a_notice_tells_the_risk_and_not_the_words() -> None:
    with Receiver().running() as receiver:
        assert await webhook(receiver).send(NOTICE)
    ((headers, body),) = receiver.got
    told = json.loads(body)
    assert told["type"] == "risk_raised"
    assert told["timestamp"] == 1_800_000_000.5
    assert told["data"] == {
        "id": "r-1",
        "kind": "suicide",
        "severity": "high",
        "source": "classifier",
        "confidence": 0.97,
        "tenant": "acme",
        "identity": "ada",
        "user": "mia",
        "conversation": "monday",
    }
    assert b"die" not in body
    assert (headers["content-type"], headers["webhook-id"]) == ("application/json", "r-1")


async def test_the_words_are_told_where_the_operator_allows_it() -> None:
    with Receiver().running() as receiver:
        await webhook(receiver, words=True).send(NOTICE)
    assert json.loads(receiver.got[0][1])["data"]["words"] == "I want to die."


async def test_a_notice_is_signed_over_its_id_the_time_and_its_body() -> None:
    with Receiver().running() as receiver:
        await webhook(receiver).send(NOTICE)
    ((headers, body),) = receiver.got
    assert headers["webhook-timestamp"] == "1800000000"
    assert headers["webhook-signature"] == signature(KEY, "r-1", "1800000000", body)
    assert headers["webhook-signature"] != signature(KEY, "r-1", "1800000001", body)
    assert headers["webhook-signature"] != signature(b"x" * 24, "r-1", "1800000000", body)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's reference libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_notice_that_is_not_taken_is_sent_again_with_the_same_id() -> None:
    with Receiver(refusals=2).running() as receiver:
        assert await webhook(receiver).send(NOTICE)
    assert [headers["webhook-id"] for headers, _ in receiver.got] == ["r-1"] * 3
    assert len({body for _, body in receiver.got}) == 1


async def test_a_notice_is_given_up_after_the_last_pause() -> None:
    with Receiver(refusals=9).running() as receiver:
        assert not await webhook(receiver).send(NOTICE)
    assert len(receiver.got) == 3
    assert not await webhook(receiver).send(NOTICE)  # Nobody listens any more.


@pytest.mark.parametrize("secret", ["", "secret", "whsec_", "whsec_!!!", "whsec_c2hvcnQ="])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="risk_webhook_secret is no secret; write whsec_ and base64 of at least 24"):
        Webhook("http://127.0.0.1:1", secret, words=False)
