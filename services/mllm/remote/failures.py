"""Brings the failures of a server, and of the way to it, to the errors of this system."""

import httpx2
import openai

from services.common.errors import BackendFailed, DeadlineExceeded, NotReady, Overloaded, ServiceError

RETRY_AFTER_S = 1.0
"""When a full server does not say when to come back."""
WORDS_MAX = 300
"""Characters of a server's own words."""
BY_STATUS: dict[int, tuple[type[BackendFailed | NotReady], str]] = {
    401: (BackendFailed, "refuses the API key"),
    403: (BackendFailed, "refuses the API key"),
    404: (NotReady, "has no such model, or is no OpenAI-compatible server"),
    503: (NotReady, "is loading or draining"),
}


def failure_of(error: Exception, server: str, key: str) -> ServiceError:
    """Returns the error that says what the caller can do. It names the server and its status, never the key.

    Args:
        error: What the library raised.
        server: The server's address.
        key: The secret; a server may repeat it in what it says.
    """
    words = " ".join(str(error).replace(key, "***").split())[:WORDS_MAX]
    if isinstance(error, openai.APIStatusError):
        if error.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            return Overloaded(f"{server} is full (429): {words}", _retry_after_s(error))
        kind, what = BY_STATUS.get(error.status_code, (BackendFailed, "failed"))
        return kind(f"{server} {what} ({error.status_code}): {words}")
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        return DeadlineExceeded(f"{server} did not answer in time; E3RG_MLLM_TIMEOUT_S allows more")
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError):
        if isinstance(error.__cause__, httpx2.ConnectError):
            return NotReady(f"{server} cannot be reached: {error.__cause__}")
        return BackendFailed(f"the connection to {server} broke: {error.__cause__ or error}")
    what = "failed" if isinstance(error, openai.APIError) else "answered with no chat completion"
    return BackendFailed(f"{server} {what}: {words}")


def _retry_after_s(error: openai.APIStatusError) -> float:
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (KeyError, ValueError):
        return RETRY_AFTER_S
