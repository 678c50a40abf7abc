"""The record of an erasure says by when no replica holds any of it: no service may hold it for longer than that."""

import re
from pathlib import Path

import pytest

from e3rg.memory.v1 import erasure_pb2 as pb
from orchestrator.memory import REFERENCES_KEEP_S
from services.memory import upkeep
from services.memory.settings import MemorySettings
from services.tts import __main__ as tts
from services.tts.domain import VOICE_KEEP_S
from services.video import __main__ as video
from services.video.domain import RIG_KEEP_S
from tests.support.memory import TENANT, Clock, header, parts, serving

ROOT = Path(__file__).parents[2]


DEFAULT_S = MemorySettings().cache_keep_s


@pytest.mark.parametrize("keep_s", [1.0, DEFAULT_S, 3600.0])
async def test_nothing_is_held_for_longer_than_the_record_of_its_erasure_says(tmp_path: Path, keep_s: float) -> None:
    settings = MemorySettings(folder=tmp_path / "memory", cache_keep_s=keep_s)
    async with serving(settings, clock=Clock()) as stubs:
        await stubs.add(parts(header()))
        request = pb.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
        audit = (await stubs.erasure.EraseIdentity(request)).audit
    # So long a memory whose database is away lends what was erased meanwhile; who borrows it holds it from then.
    lent_s = keep_s
    gone_after_s = {
        "memory": keep_s + upkeep.TIDY_S,
        "orchestrator": lent_s + REFERENCES_KEEP_S,
        "tts": lent_s + VOICE_KEEP_S + tts.TIDY_S,
        "video": lent_s + RIG_KEEP_S + video.TIDY_S,
    }
    said_s = audit.caches_gone_by_s - audit.done_at_s
    assert {name: gone_s for name, gone_s in gone_after_s.items() if gone_s > said_s} == {}


def test_whoever_holds_what_was_used_last_is_known() -> None:
    modules = [path for name in ("orchestrator", "services") for path in (ROOT / name).rglob("*.py")]
    holders = {str(path.relative_to(ROOT)) for path in modules if re.search(r"\bLastUsed\b", path.read_text("utf-8"))}
    assert holders - {"services/common/caches.py"} == {
        # The record counts these in, above.
        "orchestrator/memory.py",
        "services/tts/domain.py",
        "services/video/domain.py",
        # What a language model read last; no erasure reaches it, as the memory's README says.
        "services/mllm/chat/shots.py",
        # The emotions of the wheel, nothing of an identity.
        "services/video/dice_talk/emotion.py",
    }
