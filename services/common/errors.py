"""Errors, named by what the caller should do.

ServiceError
├── InvalidRequest      change the request: a field is wrong, and the message names it
│   └── TooLarge        … it is larger than the stated limit
├── NotFound            ask for something that exists
├── AlreadyExists       choose another name
├── Conflict            read it again: somebody else changed it meanwhile
├── FailedPrecondition  change the state of the system first
├── Unsupported         ask another service: this one has no such operation
├── NotReady            retry: it is loading or draining
├── Overloaded          retry after `retry_after_s`; with `allow_more_s` more time where the deadline is near
├── DeadlineExceeded    allow more time
├── Damaged             nothing: a stored object is not what was written; the message names it, for the operator
└── BackendFailed       nothing: the model failed; details are in the service's log
"""


class ServiceError(Exception):
    """Any failure that a caller is told about. The message is written for the caller."""


class InvalidRequest(ServiceError):
    """A field of the request is wrong.

    Args:
        field: Path of the field, as in the proto ("header.text").
        problem: The value found, and what would be right.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class TooLarge(InvalidRequest):
    """Something is larger than the stated limit."""


class NotFound(ServiceError):
    """Nothing has that name."""


class AlreadyExists(ServiceError):
    """The name is taken."""


class Conflict(ServiceError):
    """Somebody else changed it meanwhile."""


class FailedPrecondition(ServiceError):
    """The system is not in the state that this needs."""


class Unsupported(ServiceError):
    """This service's model has no such operation."""


class NotReady(ServiceError):
    """The service is loading, draining or cannot be reached; retry."""


class Overloaded(ServiceError):
    """There is no room.

    Args:
        message: Why, and what to do.
        retry_after_s: When there is likely to be room for a call like this one; None when never.
        allow_more_s: How much more time this call would need, where only its deadline is in the way: then waiting gains
            it nothing. 0 where the line is full.
    """

    def __init__(self, message: str, retry_after_s: float | None, allow_more_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.allow_more_s = allow_more_s


class DeadlineExceeded(ServiceError):
    """The time that the caller allowed is over."""


class Damaged(ServiceError):
    """A stored object is not what was written. A failure within, but the message names the object."""


class BackendFailed(ServiceError):
    """The model failed."""
