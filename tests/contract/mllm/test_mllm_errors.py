"""Which errors `mllm.proto` promises of every RPC when model, line or time fails, over a real channel."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.mllm.v1 import mllm_pb2 as pb
from services.common.errors import BackendFailed, NotReady
from tests.fake_voters import FakeLead
from tests.fakes import Gate, fail
from tests.mllm_service import head, order
from tests.samples import pcm
from tests.serving import refused

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub


def _rpcs(stub: "Stub") -> Iterator[object]:
    yield stub.PredictEmotion(iter([head()]))
    yield stub.Transcribe(iter([pb.TranscribeRequest(audio=pcm(0.1))]))
    yield stub.WriteReply(order()).read()


@pytest.mark.parametrize(
    "error", [BackendFailed("secret: weights at 0xdead"), RuntimeError("secret"), KeyError("secret")]
)
async def test_a_model_that_fails_is_an_internal_error_and_its_details_stay_in_the_log(
    stub: "Stub", lead: FakeLead, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    lead.before = fail(error)
    for number, call in enumerate(_rpcs(stub), 1):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call  # type: ignore[misc]
        assert failure.value.code() is grpc.StatusCode.INTERNAL
        assert failure.value.details() == "internal error; the log of the service has the details"
        assert "secret" not in str(failure.value)
        assert caplog.text.count("call failed") == number
    assert "secret" in caplog.text


async def test_a_model_that_loads_or_drains_is_unavailable(stub: "Stub", lead: FakeLead) -> None:
    lead.before = fail(NotReady("the model is being closed; retry"))
    for call in _rpcs(stub):
        with refused(grpc.StatusCode.UNAVAILABLE, "the model is being closed; retry"):
            await call  # type: ignore[misc]


async def test_a_full_line_refuses_and_says_when_to_come_again(stub: "Stub", lead: FakeLead) -> None:
    async def predict() -> pb.PredictEmotionResponse:
        return await stub.PredictEmotion(iter([head()]))

    lead.before = gate = Gate()
    working = asyncio.create_task(predict())
    await gate.reached()
    # One more may wait; which of the two it is, is the line's affair.
    late = {asyncio.create_task(predict()), asyncio.create_task(predict())}
    (turned_away,), (waiting,) = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
    failure = turned_away.exception()
    assert isinstance(failure, grpc.aio.AioRpcError)
    assert failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (failure.details() or "").startswith("vote: 1 requests wait for ")
    assert int(dict(failure.trailing_metadata() or ())["retry-after-ms"]) > 0
    gate.open()
    assert (await working).label == (await waiting).label == "sad"


async def test_a_call_is_given_up_at_its_deadline_and_the_model_is_free_again(stub: "Stub", lead: FakeLead) -> None:
    lead.before = gate = Gate()
    held = stub.PredictEmotion(iter([head()]), timeout=20)
    await gate.reached()
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        await stub.PredictEmotion(iter([head()]), timeout=0.05)
    assert len(lead.messages) == 1
    gate.open()
    await held
    assert (await stub.PredictEmotion(iter([head()]), timeout=20)).label == "sad"
