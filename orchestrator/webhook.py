"""Webhook that tells an operator's system of risks, signed as https://www.standardwebhooks.com says."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass

from orchestrator import metrics

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
PAUSES_S = (1.0, 5.0, 30.0, 120.0, 300.0)
"""Pauses before a notice is sent again; with the last try it is given up after some eight minutes."""
SECRET_PREFIX = "whsec_"
SECRET_BYTES_MIN = 24


@dataclass(frozen=True)
class Notice:
    """Risk as an operator is told of it; `words` only where the operator allows it."""

    id: str
    kind: str
    severity: str
    source: str
    confidence: float
    tenant: str
    identity: str
    user: str
    conversation: str
    words: str


class Webhook:
    """Sends notices to an address, again until it takes them.

    Args:
        url: The address; a status of 2xx takes a notice.
        secret: Secret of the signature, "whsec_" and base64 of at least 24 bytes.
        words: Whether the user's words are told.
        clock: Unix time in seconds.
        pauses_s: Pauses before a notice is sent again.

    Raises:
        ValueError: The secret is none.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        words: bool,
        clock: Callable[[], float] = time.time,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self._url, self._secret, self._words = url, _key(secret), words
        self._clock, self._pauses_s = clock, pauses_s

    async def send(self, notice: Notice) -> bool:
        """Send a notice; return whether it was taken."""
        content = asdict(notice)
        if not self._words:
            del content["words"]
        body = json.dumps({"type": "risk_raised", "timestamp": self._clock(), "data": content}).encode()
        for pause_s in (*self._pauses_s, None):
            try:
                await asyncio.to_thread(self._post, notice.id, body)
                metrics.RISK_NOTICES.labels("sent").inc()
                return True
            except (OSError, urllib.error.HTTPError) as error:
                if pause_s is None:
                    metrics.RISK_NOTICES.labels("given_up").inc()
                    log.error("risk notice given up", extra={"risk": notice.id, "why": str(error)})
                    return False
                metrics.RISK_NOTICES.labels("failed").inc()
                log.warning("risk notice not taken", extra={"risk": notice.id, "why": str(error)})
                await asyncio.sleep(pause_s)
        return False

    def _post(self, name: str, body: bytes) -> None:
        stamp = str(int(self._clock()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "e3rg",
            "webhook-id": name,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(self._secret, name, stamp, body),
        }
        request = urllib.request.Request(self._url, body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            response.read(1)


def signature(key: bytes, name: str, stamp: str, body: bytes) -> str:
    """Return the signature of a notice over its id, the time and its body."""
    digest = hmac.digest(key, b".".join((name.encode(), stamp.encode(), body)), hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or len(key) < SECRET_BYTES_MIN:
        how = f"write {SECRET_PREFIX} and base64 of at least {SECRET_BYTES_MIN} random bytes"
        raise ValueError(f"risk_webhook_secret is no secret; {how}")
    return key
