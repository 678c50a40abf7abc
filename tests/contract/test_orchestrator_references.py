"""What the orchestrator keeps of identities, and when that is gone; what it lends to voice and face."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from typing import cast as typed

import grpc
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2 as erasure
from e3rg.memory.v1 import erasure_pb2_grpc
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from orchestrator.memory import DERIVED_KEEP_S, REFERENCES_BYTES_MAX, Memory
from services.common import clients
from services.common.errors import NotFound
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, deployed
from tests.fake_faces import FakeFace
from tests.fake_memory import FakeMemory, serving_memory
from tests.fakes import PATIENCE_S, Gate
from tests.samples import wav
from tests.serving import CallLog
from tests.support.memory import Clock
from tests.turns import away, header, respond

if TYPE_CHECKING:
    from e3rg.memory.v1.erasure_pb2_grpc import ErasureServiceAsyncStub as Erasure
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

FILES = [(identities.REFERENCE_KIND_PORTRAIT, PORTRAIT), (identities.REFERENCE_KIND_VOICE, VOICE)]
MODEL, CONTENT = "d" * 64, bytes(range(256)) * (3 << 12)


@pytest.fixture
def fake() -> FakeMemory:
    memory = FakeMemory()  # type: ignore[abstract] # the rest is not asked
    memory.add("acme", "ada", common.Profile(name="Ada"), ALL_USES, FILES)
    return memory


@pytest.fixture
async def channel(fake: FakeMemory) -> AsyncIterator[grpc.aio.Channel]:
    async with serving_memory(fake, emotions.load()) as served, clients.open_channel(served.address) as channel:
        yield channel


@pytest.fixture
async def stage(channel: grpc.aio.Channel) -> Memory:
    return Memory(channel)


def recall(tenant: str = "acme", name: str = "ada") -> pb.RecallRequest:
    return pb.RecallRequest(tenant=tenant, identity=name)


async def read(stage: Memory, tenant: str = "acme") -> bytes:
    """Recalls the identity and reads its portrait."""
    identity = (await stage.recall(recall(tenant))).identity
    return await stage.reference(tenant, identity, identity.references[0].digest)


def reads(calls: CallLog) -> int:
    return sum(call.method == "GetReference" for call in calls.calls)


def derivations(calls: CallLog) -> int:
    return sum(call.method == "GetDerived" for call in calls.calls)


async def test_a_file_is_read_once(stage: Memory, calls: CallLog) -> None:
    assert [await read(stage), await read(stage)] == [PORTRAIT, PORTRAIT]
    assert reads(calls) == 1


async def test_the_same_identity_of_another_tenant_is_another(stage: Memory, fake: FakeMemory, calls: CallLog) -> None:
    fake.add("other", "ada", common.Profile(name="Ada"), ALL_USES, FILES)
    for tenant in ("acme", "other", "acme", "other"):
        assert await read(stage, tenant) == PORTRAIT
    assert reads(calls) == 2


@pytest.mark.parametrize("change", ["version", "generation"])
async def test_what_was_changed_elsewhere_is_read_anew(
    stage: Memory, fake: FakeMemory, calls: CallLog, change: str
) -> None:
    await read(stage)
    identity = fake.identities["acme", "ada"]
    identity.version, identity.generation = (2, identity.generation) if change == "version" else (1, "f" * 32)
    await stage.recall(recall())
    assert not stage.kept
    await read(stage)
    assert reads(calls) == 2


async def test_of_what_was_erased_elsewhere_nothing_is_kept(stage: Memory, fake: FakeMemory) -> None:
    await read(stage)
    fake.erase("acme", "ada")
    with pytest.raises(NotFound):
        await stage.recall(recall())
    assert not stage.kept


async def test_what_is_not_used_any_more_is_gone_though_nobody_asks(channel: grpc.aio.Channel) -> None:
    stage = Memory(channel, keep_s=0.05)
    await read(stage)
    assert stage.kept
    async with asyncio.timeout(PATIENCE_S):
        while stage.kept:
            await asyncio.sleep(0)


async def test_what_was_derived_is_kept_in_pieces_and_found_by_its_files_and_model(
    stage: Memory, channel: grpc.aio.Channel
) -> None:
    ada = (await stage.recall(recall())).identity
    digests = [file.digest for file in ada.references]
    assert await stage.derived("acme", ada, digests, MODEL) == b""
    await stage.keep_derived("acme", ada, digests, MODEL, CONTENT)
    for each in (stage, Memory(channel)):
        assert await each.derived("acme", ada, digests, MODEL) == CONTENT
    for others in (("other", digests, MODEL), ("acme", digests[:1], MODEL), ("acme", digests, "e" * 64)):
        assert await stage.derived(others[0], ada, others[1], others[2]) == b""


async def test_what_was_derived_is_read_once_and_not_at_all_by_whoever_keeps_it(
    stage: Memory, channel: grpc.aio.Channel, calls: CallLog
) -> None:
    ada = (await stage.recall(recall())).identity
    await stage.keep_derived("acme", ada, ["a" * 64], MODEL, CONTENT)
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == CONTENT
    assert derivations(calls) == 0
    elsewhere = Memory(channel)
    assert [await elsewhere.derived("acme", ada, ["a" * 64], MODEL) for _ in range(2)] == [CONTENT] * 2
    assert derivations(calls) == 1


async def test_what_was_derived_anew_takes_the_place_of_what_was_derived(stage: Memory) -> None:
    ada = (await stage.recall(recall())).identity
    for content in (b"first", b"second"):
        await stage.keep_derived("acme", ada, ["a" * 64], MODEL, content)
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == b"second"


async def test_that_nothing_is_derived_yet_is_asked_each_time(stage: Memory, fake: FakeMemory) -> None:
    ada = (await stage.recall(recall())).identity
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == b""
    fake.derived["acme", "ada", ("a" * 64,), MODEL] = CONTENT  # By another replica.
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == CONTENT


async def test_what_could_not_be_kept_is_not_kept_here_either(stage: Memory, fake: FakeMemory) -> None:
    ada = (await stage.recall(recall())).identity
    fake.before = away("PutDerived")
    await stage.keep_derived("acme", ada, ["a" * 64], MODEL, CONTENT)
    assert not stage.kept


@pytest.mark.parametrize("change", ["version", "generation", "erasure", "forget"])
async def test_nothing_is_kept_of_what_was_derived_from_an_identity_that_is_another_now(
    stage: Memory, fake: FakeMemory, change: str
) -> None:
    ada = (await stage.recall(recall())).identity
    await stage.keep_derived("acme", ada, ["a" * 64], MODEL, CONTENT)
    assert stage.kept
    identity = fake.identities["acme", "ada"]
    match change:
        case "erasure":
            fake.erase("acme", "ada")
            with pytest.raises(NotFound):
                await stage.recall(recall())
        case "forget":
            stage.forget("acme", "ada")
        case _:
            identity.version, identity.generation = (2, identity.generation) if change == "version" else (1, "f" * 32)
            await stage.recall(recall())
    assert not stage.kept


async def test_what_was_derived_and_is_not_used_any_more_is_gone_though_nobody_asks(channel: grpc.aio.Channel) -> None:
    stage = Memory(channel, keep_s=0.05)
    ada = (await stage.recall(recall())).identity
    await stage.keep_derived("acme", ada, ["a" * 64], MODEL, CONTENT)
    assert stage.kept
    async with asyncio.timeout(PATIENCE_S):
        while stage.kept:
            await asyncio.sleep(0)


async def test_files_and_what_was_derived_share_their_room(stage: Memory, calls: CallLog) -> None:
    ada = (await stage.recall(recall())).identity
    digest = ada.references[0].digest
    await stage.reference("acme", ada, digest)
    await stage.keep_derived("acme", ada, [digest], MODEL, bytes(REFERENCES_BYTES_MAX - 1))
    await stage.reference("acme", ada, digest)
    assert reads(calls) == 2


async def test_what_is_used_all_the_time_is_asked_for_each_hour_since_its_retention_may_have_ended(
    channel: grpc.aio.Channel, fake: FakeMemory
) -> None:
    clock = Clock(10 * DERIVED_KEEP_S)
    stage = Memory(channel, clock=clock)
    ada = (await stage.recall(recall())).identity
    await stage.keep_derived("acme", ada, ["a" * 64], MODEL, CONTENT)
    fake.derived.clear()
    clock.now_s += DERIVED_KEEP_S - 1
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == CONTENT
    clock.now_s += 1
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == b""


async def test_a_memory_that_cannot_say_what_was_derived_costs_nothing_but_deriving_it(
    stage: Memory, fake: FakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    ada = (await stage.recall(recall())).identity
    fake.before = away("GetDerived", "PutDerived")
    await stage.keep_derived("acme", ada, ["a" * 64], MODEL, CONTENT)
    assert await stage.derived("acme", ada, ["a" * 64], MODEL) == b""
    assert "what was derived is not kept" in caplog.text
    assert not fake.derived


async def test_cancelling_ends_the_reading_of_a_file(stage: Memory, fake: FakeMemory, calls: CallLog) -> None:
    await stage.recall(recall())
    fake.before = gate = Gate("GetReference")
    reading = asyncio.create_task(read(stage))
    await gate.reached()
    reading.cancel()
    assert [call.status for call in await calls.ended("GetReference")] == ["CANCELLED"]
    gate.open()
    assert not stage.kept


# Through the door


@pytest.fixture
def cast() -> Cast:
    cast = Cast()
    cast.add_identity("ada", voices=(VOICE, wav(1.5)))
    return cast


@pytest.fixture
async def door(cast: Cast) -> AsyncIterator[grpc.aio.Channel]:
    async with deployed(cast) as deployment:
        yield deployment.served["orchestrator"].channel


def turns(door: grpc.aio.Channel) -> "Stub":
    return typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(door))


async def test_all_recordings_of_a_voice_are_lent_and_fitted_together_once(door: grpc.aio.Channel, cast: Cast) -> None:
    for _ in range(2):
        turn = await respond(turns(door), header(output=orchestrator_pb2.OUTPUT_AUDIO))
        assert turn.degraded == []
    voices = [file.digest for file in turn.identity.identity.references if file.kind == 2]
    assert [lent.digest for lent, _ in cast.voice.prepared] == voices
    assert len(voices) == 2
    ((key, content),) = cast.memory.derived.items()
    assert key == ("default", "ada", tuple(voices), cast.voice.digest)
    assert content.endswith(b"a fitted voice")


async def test_a_face_is_rigged_once_and_for_all_replicas(door: grpc.aio.Channel, cast: Cast) -> None:
    turn = await respond(turns(door), header())
    portrait = turn.identity.identity.references[0].digest
    key = ("default", "ada", (portrait,), cast.portrait.digest)
    assert cast.memory.derived[key].endswith(cast.portrait.packed)
    first, cast.portrait = cast.portrait, FakeFace()
    async with deployed(cast) as elsewhere:
        await respond(turns(elsewhere.served["orchestrator"].channel), header())
    assert (len(first.prepared), cast.portrait.prepared, cast.portrait.restored) == (1, [], [first.packed])


async def test_a_warm_turn_asks_for_nothing_that_was_derived(door: grpc.aio.Channel, calls: CallLog) -> None:
    await respond(turns(door), header())
    asked = derivations(calls)
    await respond(turns(door), header())
    assert derivations(calls) == asked == 2


async def test_an_identity_that_is_erased_at_the_door_is_gone_there_too(
    door: grpc.aio.Channel, cast: Cast, calls: CallLog
) -> None:
    eraser = typed("Erasure", erasure_pb2_grpc.ErasureServiceStub(door))
    read_until_now = []
    generation = cast.memory.identities["default", "ada"].generation
    for _ in range(2):
        await respond(turns(door), header(output=orchestrator_pb2.OUTPUT_AUDIO))
        read_until_now.append(reads(calls))
        request = erasure.EraseIdentityRequest(tenant="default", identity="ada", asked_by="the test")
        assert (await eraser.EraseIdentity(request)).audit.what == "identity ada"
        # As if nobody could tell the new one from the one before.
        cast.add_identity("ada", voices=(VOICE, wav(1.5))).generation = generation
    assert read_until_now == [2, 4]
