"""Errors and statuses."""

import re

import grpc
import pytest

from services.common import errors, rpc, tracing


@pytest.mark.parametrize(
    ("error", "status", "back"),
    [
        (errors.InvalidRequest("header.text", "empty"), grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidRequest),
        (errors.TooLarge("audio", "5 GB; send less"), grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidRequest),
        (errors.NotFound("identity 'x' is unknown"), grpc.StatusCode.NOT_FOUND, errors.NotFound),
        (errors.AlreadyExists("taken"), grpc.StatusCode.ALREADY_EXISTS, errors.AlreadyExists),
        (errors.FailedPrecondition("wheel"), grpc.StatusCode.FAILED_PRECONDITION, errors.FailedPrecondition),
        (errors.Unsupported("no ears"), grpc.StatusCode.UNIMPLEMENTED, errors.Unsupported),
        (errors.NotReady("loading"), grpc.StatusCode.UNAVAILABLE, errors.NotReady),
        (errors.Overloaded("full", 2.5, 1.5), grpc.StatusCode.RESOURCE_EXHAUSTED, errors.Overloaded),
        (errors.DeadlineExceeded("too slow"), grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (errors.BackendFailed("broken"), grpc.StatusCode.INTERNAL, errors.BackendFailed),
        (errors.Damaged("objects/x"), grpc.StatusCode.INTERNAL, errors.BackendFailed),
    ],
)
def test_an_error_becomes_a_status_and_the_same_error_again(
    error: errors.ServiceError, status: grpc.StatusCode, back: type[errors.ServiceError]
) -> None:
    assert rpc.status_of(error) is status
    again = rpc.error_of(status, str(error), 2.5, 1.5)
    assert type(again) is back
    assert str(again) == str(error)
    assert getattr(again, "field", "") == getattr(error, "field", "")
    assert getattr(again, "retry_after_s", 0) == getattr(error, "retry_after_s", 0)
    assert getattr(again, "allow_more_s", 0) == getattr(error, "allow_more_s", 0)


def _all_errors(cls: type[errors.ServiceError] = errors.ServiceError) -> list[type[errors.ServiceError]]:
    below = [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    return [cls, *(found for sub in below for found in _all_errors(sub))]


def test_every_error_is_in_the_tree_at_the_head_of_the_module_and_has_a_status_that_is_meant() -> None:
    for cls in _all_errors():
        assert re.search(rf"\b{cls.__name__}\b", errors.__doc__ or "")
    without = {cls for cls in _all_errors() if not set(cls.__mro__) & set(rpc.STATUS_BY_ERROR)}
    assert without == {errors.ServiceError, errors.Damaged, errors.BackendFailed}


def test_the_nearest_ancestor_decides() -> None:
    class OutOfRange(errors.TooLarge):
        pass

    class LostIdentity(LookupError, errors.NotFound):
        pass

    assert rpc.status_of(OutOfRange("x", "y")) is grpc.StatusCode.INVALID_ARGUMENT
    assert rpc.status_of(LostIdentity("x")) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("error", [KeyError("secret"), TimeoutError(), RuntimeError(), errors.ServiceError("x")])
def test_any_other_failure_is_internal(error: BaseException) -> None:
    assert rpc.status_of(error) is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    "status", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS, grpc.StatusCode.PERMISSION_DENIED]
)
def test_a_status_that_no_service_of_ours_sends_is_a_failure_of_the_other(status: grpc.StatusCode) -> None:
    assert type(rpc.error_of(status, "details")) is errors.BackendFailed


def test_a_call_that_the_server_cancelled_may_be_tried_again() -> None:
    assert type(rpc.error_of(grpc.StatusCode.CANCELLED, "draining")) is errors.NotReady


def test_details_without_a_field_blame_the_request() -> None:
    error = rpc.error_of(grpc.StatusCode.INVALID_ARGUMENT, "no good")
    assert isinstance(error, errors.InvalidRequest)
    assert (error.field, str(error)) == ("request", "request: no good")


def test_outside_of_a_call_there_is_no_deadline_and_no_trace() -> None:
    assert rpc.remaining_s() is None
    assert tracing.trace_id() == ""
    assert tracing.headers() == ()
