"""What an S3 store's refusals mean, and what to do about them."""

from services.memory.s3.connection import Address, Answer

_CREDENTIALS = (
    "refuses the credentials; set E3RG_MEMORY_S3_ACCESS_KEY and _SECRET_KEY, or the files that _ACCESS_KEY_FILE and"
    " _SECRET_KEY_FILE name"
)
_REGION = "says that the bucket is in another region; set E3RG_MEMORY_S3_REGION, or the endpoint of that region"
_BUSY = "is overloaded; retry"
_MEANINGS = {
    "AccessDenied": (
        "allows these credentials less than is needed, or does not know them; they must list the bucket, read its"
        " versioning, and read, write and delete its objects"
    ),
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "RequestTimeTooSkewed": "says that the clocks of this machine and of the store differ by minutes; set both right",
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "SlowDown": _BUSY,
    "ServiceUnavailable": _BUSY,
}

_PASSING = frozenset(
    {"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "IncompleteBody", "BadDigest"}
    | {"XAmzContentSHA256Mismatch", "InvalidDigest"}
)
"""Errors of the caller by their status that are gone when it asks again: another writer at the same instant, a body
that did not arrive as it was sent."""


def is_passing(answer: Answer) -> bool:
    """Tells whether the same request may well be answered in a moment."""
    busy = answer.status == 429 or answer.status >= 500
    return (busy and answer.status != 501) or answer.code in _PASSING


def meaning(address: Address, answer: Answer, asked: str) -> str:
    """Returns what an operator should read about a refusal; `asked` is what was refused ("GET a/b")."""
    if answer.code == "NoSuchBucket":
        remedy = "make it, or set E3RG_MEMORY_S3_CREATE_BUCKET=true"
        return f"the object store at {address} has no bucket {address.bucket!r}; {remedy}"
    said = " ".join(filter(None, (str(answer.status), answer.code)))
    means = _MEANINGS.get(answer.code) or (_BUSY if answer.status in (429, 503) else "refuses; its log says why")
    return f"the object store at {address} {means} ({said} to {asked} in bucket {address.bucket!r})"
