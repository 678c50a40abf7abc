"""The store on S3 when the way to it, the server or the settings are not as they should be."""

import hashlib
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from minio import Minio
from minio.versioningconfig import VersioningConfig

from services.common import deadline
from services.common.errors import Damaged, DeadlineExceeded, NotReady
from services.memory.backends.s3 import S3Backend, Settings
from services.memory.s3.bucket import ATTEMPTS, Bucket
from services.memory.s3.credentials import Keys
from services.memory.s3.trial import try_bucket
from services.memory.store import Object, content_of
from tests.fake_store import FakeStore
from tests.s3_proxy import Answering, Flipping, Losing, S3Proxy, Stalling
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, environment, open_store, settings, wait_for

TLS = Path(__file__).parent / "tls"
"""A certificate of this machine that certifies itself, until 2126, and its key."""


@pytest.fixture
def proxy(s3_server: S3Server, s3_store: S3Backend) -> Iterator[S3Proxy]:
    proxy = S3Proxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy: S3Proxy) -> Iterator[S3Backend]:
    """The same bucket as that of `s3_store`, by way of the proxy."""
    store = open_store(proxy.endpoint)
    yield store
    store.close()


def operations(store: S3Backend) -> dict[str, Callable[[], object]]:
    return {
        "put": lambda: store.put("a/put", b"x"),
        "create": lambda: store.create("a/created", b"x"),
        "replace": lambda: store.replace("a/replaced", b"new", store.put("a/replaced", b"old")),
        "get": lambda: store.get("a/got"),
        "list": lambda: store.list("a/"),
        "delete": lambda: store.delete(["a/deleted"]),
        "delete more": lambda: store.delete(["a/deleted", "a/too"]),
        "check": store.check,
    }


OPERATIONS = ["put", "create", "replace", "get", "list", "delete", "delete more", "check"]


def client(server: S3Server) -> Minio:
    """Another's way to the bucket."""
    return Minio(server.endpoint, ACCESS_KEY, SECRET_KEY, secure=False, region="us-east-1")


# Away, and back.


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_store_that_is_away_is_not_ready_and_works_when_it_is_back(
    store: S3Backend, proxy: S3Proxy, operation: str
) -> None:
    store.put("a/before", b"x")
    proxy.down()
    with pytest.raises(
        NotReady, match=rf"http://{proxy.endpoint} cannot be reached \(.*refused\); start it, or set E3RG"
    ):
        operations(store)[operation]()
    proxy.up()
    operations(store)[operation]()
    assert content_of(store.get("a/before")) == b"x"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_connection_that_breaks_once_is_not_noticed(store: S3Backend, proxy: S3Proxy, operation: str) -> None:
    store.check()
    for fault in (Losing(""), Losing("", ATTEMPTS - 1)):
        proxy.answers = fault
        operations(store)[operation]()
        assert not fault.left


def test_a_server_that_is_killed_and_started_again_has_what_was_acknowledged(tmp_path: Path) -> None:
    server = S3Server(tmp_path)
    server.start()
    try:
        store = open_store(server.endpoint)
        wait_for(store)
        etags = {f"a/{number}": store.create(f"a/{number}", bytes([number])) for number in range(20)}
        server.kill()
        with pytest.raises(NotReady, match="cannot be reached"):
            store.put("a/down", b"x")
        server.start()
        wait_for(store)
        for number, (key, etag) in enumerate(etags.items()):
            assert store.get(key) == Object(bytes([number]), etag or "")
        assert store.get("a/down") is None
        store.close()
    finally:
        server.kill()


# Slow.


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_silent_store_is_left_at_the_deadline_of_the_call(store: S3Backend, proxy: S3Proxy, operation: str) -> None:
    proxy.answers = stalling = Stalling()
    with deadline.within(0.3), pytest.raises(DeadlineExceeded, match=r"does not answer in time.*allow more"):
        operations(store)[operation]()
    assert stalling.begun.is_set()


def test_a_call_whose_time_is_over_asks_nothing(store: S3Backend, proxy: S3Proxy) -> None:
    store.check()
    proxy.requests = asked = Losing("", 1)
    with deadline.within(0), pytest.raises(DeadlineExceeded, match="over before the object store was asked"):
        store.get("a/b")
    assert asked.left


def test_without_a_deadline_the_setting_counts(proxy: S3Proxy) -> None:
    store = open_store(proxy.endpoint, timeout_s="0.1")
    proxy.answers = Stalling()
    with pytest.raises(NotReady, match="does not answer in time; retry, or set E3RG_MEMORY_S3_TIMEOUT_S"):
        store.get("a/b")
    store.close()


def test_a_store_that_answers_byte_by_byte_keeps_nobody_beyond_the_deadline(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", bytes(2**20))
    left, passed = threading.Event(), 0

    def trickle(request: str, piece: bytes) -> bytes | None:
        nonlocal passed
        if left.wait(0.2):
            return None
        passed += 1
        return piece[:1000]

    proxy.answers = trickle
    try:
        with deadline.within(0.5), pytest.raises(DeadlineExceeded):
            store.get("a/b")
        assert passed < 12, "of 16 pieces"
    finally:
        left.set()


# Lost answers.


def test_a_creation_whose_answer_got_lost_is_known_as_ones_own(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    store.check()
    for number in range(10):
        proxy.answers = lost = Losing("PUT")
        etag = store.create(f"a/{number}", b"mine %d" % number)
        assert not lost.left
        assert s3_store.get(f"a/{number}") == Object(b"mine %d" % number, etag or "")


def test_a_creation_whose_answer_got_lost_is_not_confused_with_anothers(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"another's")
    proxy.answers = Losing("PUT")
    assert store.create("a/b", b"mine") is None
    assert content_of(s3_store.get("a/b")) == b"another's"


def test_a_replacement_whose_answer_got_lost_is_known_as_ones_own(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    etag = s3_store.put("a/b", b"0")
    for number in range(1, 10):
        proxy.answers = lost = Losing("PUT")
        new = store.replace("a/b", b"%d" % number, etag)
        assert new
        assert not lost.left
        assert s3_store.get("a/b") == Object(b"%d" % number, new)
        etag = new


def test_a_replacement_of_which_nobody_can_tell_whether_it_was_made_says_so(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    etag = s3_store.put("a/b", b"old")

    def overwritten(request: str, piece: bytes) -> bytes | None:
        if content_of(s3_store.get("a/b")) != b"mine":
            return piece
        s3_store.put("a/b", b"another's")
        return None

    proxy.answers = overwritten
    with pytest.raises(NotReady, match="the answer to a write of 'a/b' got lost, and it is another by now"):
        store.replace("a/b", b"mine", etag)
    assert content_of(s3_store.get("a/b")) == b"another's"


def test_counting_by_way_of_a_network_that_loses_answers_neither_loses_nor_doubles(
    s3_store: S3Backend, store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("count", b"0 nobody")

    def count(writer: int) -> int:
        done, doubts = 0, 0
        while done < 6:
            found = store.get("count")
            assert isinstance(found, Object)
            new = b"%d %d-%d" % (int(found.content.split()[0]) + 1, writer, done)
            try:
                done += store.replace("count", new, found.etag) is not None
            except NotReady:
                doubts += 1
        return doubts

    answers = iter(range(10_000))
    proxy.answers = lambda request, piece: None if request.startswith("PUT") and not next(answers) % 3 else piece
    with ThreadPoolExecutor(3) as threads:
        doubts = sum(threads.map(count, range(3)))
    counted = int((content_of(s3_store.get("count")) or b"").split()[0])
    assert 18 <= counted <= 18 + doubts


# Damage.


def test_a_body_damaged_on_the_way_there_is_refused_and_sent_again(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    store.check()
    proxy.requests = flipping = Flipping("PUT")
    store.put("a/b", b"right" * 1000)
    assert not flipping.left
    assert content_of(s3_store.get("a/b")) == b"right" * 1000


def test_a_body_damaged_on_the_way_back_is_never_served_and_read_again(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"right" * 1000)
    proxy.answers = flipping = Flipping("GET")
    assert content_of(store.get("a/b")) == b"right" * 1000
    assert not flipping.left
    proxy.answers = Flipping("GET", 1000)
    with pytest.raises(Damaged, match="stored object 'a/b' is damaged: its SHA-256 is not the one that http"):
        store.get("a/b")


def test_an_object_damaged_on_the_disk_of_the_store_is_never_served(s3_server: S3Server, s3_store: S3Backend) -> None:
    content = hashlib.sha256(b"seed").digest() * 2000
    s3_store.put("a/b", content)
    (file,) = (path for path in s3_server.data.rglob("*.dat") if content[:64] in path.read_bytes())
    with file.open("r+b") as disk:
        disk.seek(file.read_bytes().index(content) + 30_000)
        disk.write(b"!")
    # SeaweedFS tries its other copies, of which there are none here, for longer than one would wait.
    with deadline.within(1), pytest.raises((Damaged, NotReady, DeadlineExceeded)):
        s3_store.get("a/b")


def test_half_an_answer_is_none(store: S3Backend, s3_store: S3Backend, proxy: S3Proxy) -> None:
    content = bytes(2**20)
    s3_store.put("a/b", content)
    passed, limit = 0, 500_000

    def cut(request: str, piece: bytes) -> bytes | None:
        nonlocal passed
        passed += len(piece)
        return piece if passed < limit else None

    proxy.answers = cut
    with pytest.raises(NotReady, match="broke the connection off"):
        store.get("a/b")
    passed, limit = 0, 2**19 + 2**20
    assert content_of(store.get("a/b")) == content


def test_half_an_upload_is_nothing(store: S3Backend, s3_store: S3Backend, proxy: S3Proxy) -> None:
    store.check()
    sent = 0

    def cut(request: str, piece: bytes) -> bytes | None:
        nonlocal sent
        sent += len(piece)
        return piece if sent < 500_000 else None

    proxy.requests = cut
    with pytest.raises(NotReady, match="broke the connection off"):
        store.put("a/b", bytes(2**20))
    assert s3_store.list("") == ()


# Refusals.


def error(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()


XML, HTML = "application/xml", "text/html"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            Answering(500, error("InternalError"), XML),
            "refuses; its log says why (500 InternalError to GET a/b in bucket",
        ),
        (Answering(503, error("SlowDown"), XML), "is overloaded; retry (503 SlowDown to GET a/b"),
        (Answering(503, b"<html>proxy</html>", HTML), "is overloaded; retry (503 to GET a/b"),
        (Answering(502, b"", HTML), "refuses; its log says why (502 to GET a/b"),
        (Answering(400, error("AuthorizationHeaderMalformed"), XML), "in another region; set E3RG_MEMORY_S3_REGION"),
        (Answering(301, error("PermanentRedirect"), XML), "in another region; set E3RG_MEMORY_S3_REGION"),
        (Answering(403, error("AccessDenied"), XML), "allows these credentials less than is needed"),
        (Answering(403, b"<html>who are you</html>", HTML), "refuses; its log says why (403 to GET a/b"),
        (Answering(500, b"<Error", XML), "broke the connection off"),
    ],
    ids=lambda value: None if isinstance(value, Answering) else value[:40],
)
def test_a_refusal_is_told_with_its_meaning(store: S3Backend, proxy: S3Proxy, answer: Answering, text: str) -> None:
    proxy.answers = answer
    with pytest.raises(NotReady) as refusal:
        store.get("a/b")
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown"), (400, "BadDigest")]
)
def test_what_passes_by_itself_is_asked_again(store: S3Backend, proxy: S3Proxy, status: int, code: str) -> None:
    proxy.answers = answer = Answering(status, error(code), XML, times=ATTEMPTS - 1)
    assert store.put("a/b", b"x")
    assert not answer.left


def test_a_store_that_fails_after_it_has_written_has_written(store: S3Backend, proxy: S3Proxy) -> None:
    proxy.answers = Answering(500, error("InternalError"), XML, times=1)
    assert store.create("a/b", b"mine")


def test_a_listing_that_cannot_be_read_is_no_empty_one(store: S3Backend, proxy: S3Proxy) -> None:
    proxy.answers = Answering(200, b"<ListBucketResult><Contents>", XML)
    with pytest.raises(NotReady, match=r"answers GET .* with what is no XML"):
        store.list("")


def test_a_clock_that_is_wrong_is_told(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(s3_server.endpoint)
    monkeypatch.setattr("minio.time.utcnow", lambda: datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(NotReady, match="the clocks of this machine and of the store differ by minutes"):
        store.get("a/b")
    store.close()


# TLS.


@pytest.fixture
def tls_proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    proxy = S3Proxy(s3_server.port, context)
    yield proxy
    proxy.close()


def test_a_store_is_spoken_to_by_tls_when_its_authority_is_known(tls_proxy: S3Proxy) -> None:
    store = open_store(tls_proxy.endpoint, tls="true", ca_file=str(TLS / "certificate.pem"))
    store.check()
    content = bytes(range(256)) * 10_000
    store.put("a/b", content)
    assert content_of(store.get("a/b")) == content
    store.delete(["a/b", "a/c"])
    assert store.list("") == ()
    store.close()


def test_an_answer_damaged_below_tls_is_a_lost_one(tls_proxy: S3Proxy, s3_store: S3Backend) -> None:
    wire = S3Proxy(tls_proxy.port)
    store = open_store(wire.endpoint, tls="true", ca_file=str(TLS / "certificate.pem"))
    try:
        store.check()
        wire.answers = flipping = Flipping("")
        etag = store.create("a/b", b"mine")
        assert not flipping.left
        assert s3_store.get("a/b") == Object(b"mine", etag or "")
    finally:
        store.close()
        wire.close()


def test_a_store_that_another_authority_certifies_is_refused(tls_proxy: S3Proxy) -> None:
    for endpoint, ca_file in ((tls_proxy.endpoint, ""), (f"localhost:{tls_proxy.port}", str(TLS / "certificate.pem"))):
        store = open_store(endpoint, tls="true", ca_file=ca_file)
        with pytest.raises(NotReady, match=r"speaks no TLS that this service trusts .*; set E3RG_MEMORY_S3_CA_FILE"):
            store.check()
        store.close()


# Settings.


@pytest.mark.parametrize("operation", OPERATIONS)
def test_wrong_credentials_are_told_by_every_operation(s3_server: S3Server, operation: str) -> None:
    store = open_store(s3_server.endpoint, secret_key="wrong")
    with pytest.raises(NotReady, match="refuses the credentials; set E3RG_MEMORY_S3_ACCESS_KEY and _SECRET_KEY, or"):
        operations(store)[operation]()
    store.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"secret_key": "wrong"}, "refuses the credentials; set E3RG_MEMORY_S3_ACCESS_KEY"),
        ({"access_key": "nobody"}, "refuses the credentials; set E3RG_MEMORY_S3_ACCESS_KEY"),
        (
            {"bucket": "no-such", "create_bucket": ""},
            "has no bucket 'no-such'; make it, or set E3RG_MEMORY_S3_CREATE_B",
        ),
        ({"tls": "true"}, "speaks no TLS that this service trusts"),
    ],
)
def test_a_wrong_setting_is_told_with_the_remedy(
    s3_server: S3Server, s3_store: S3Backend, changes: dict[str, str], text: str
) -> None:
    store = open_store(s3_server.endpoint, **changes)
    with pytest.raises(NotReady) as refusal:
        store.check()
    assert text in str(refusal.value)
    assert s3_server.endpoint in str(refusal.value)
    assert SECRET_KEY not in str(refusal.value)
    store.close()


def test_a_bucket_that_lacks_is_made_when_told_by_whoever_comes_first(s3_server: S3Server) -> None:
    stores = [open_store(s3_server.endpoint, bucket="test-made") for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(S3Backend.check, stores))
    stores[0].put("a", b"x")
    stores[0].delete(["a"])
    for store in stores:
        store.close()


def test_a_bucket_that_keeps_versions_is_refused(s3_server: S3Server) -> None:
    store = open_store(s3_server.endpoint, bucket="test-versions")
    store.check()
    for status in ("Enabled", "Suspended"):
        client(s3_server).set_bucket_versioning("test-versions", VersioningConfig(status))
        with pytest.raises(NotReady, match=f"versioning of the bucket 'test-versions' is {status}: what is erased"):
            store.check()
    store.close()


class Careless(S3Backend):
    """A store that takes no notice of If-None-Match or of If-Match."""

    condition = ""

    def create(self, key: str, content: bytes) -> str | None:
        return self.put(key, content) if self.condition == "If-None-Match" else super().create(key, content)

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        return self.put(key, content) if self.condition == "If-Match" else super().replace(key, content, etag)


@pytest.mark.parametrize("condition", ["If-None-Match", "If-Match"])
def test_a_store_that_ignores_conditions_is_refused(s3_server: S3Server, condition: str) -> None:
    store = Careless(settings(s3_server.endpoint))
    store.check()
    store.condition = condition
    with pytest.raises(NotReady, match=f"does not keep the condition {condition}.* use a store that has conditional"):
        store.check()
    assert store.list("") == ()
    store.close()


def test_probes_of_the_dead_are_removed_and_those_of_the_living_stay(s3_server: S3Server) -> None:
    bucket = Bucket(settings(s3_server.endpoint).address, Keys(ACCESS_KEY, SECRET_KEY), 20)
    times = iter([0.0, 4000.0, 4001.0, 4002.0, 4003.0, 4004.0, 4005.0])
    store = FakeStore(lambda: next(times))
    store.put("probe/dead", b"4")
    store.put("probe/living", b"4")
    try_bucket(bucket, store, make=False)
    assert list(store.objects) == ["probe/living"]
    bucket.close()


def test_credentials_from_files_are_read_again_when_they_change(s3_server: S3Server, tmp_path: Path) -> None:
    access, secret = tmp_path / "access", tmp_path / "secret"
    access.write_text(f"{ACCESS_KEY}\n")
    secret.write_text("wrong")
    store = open_store(
        s3_server.endpoint, access_key="", secret_key="", access_key_file=str(access), secret_key_file=str(secret)
    )
    with pytest.raises(NotReady, match="refuses the credentials"):
        store.list("")
    (tmp_path / "new").write_text(SECRET_KEY)
    (tmp_path / "new").replace(secret)
    assert store.list("") == ()
    secret.unlink()
    with pytest.raises(NotReady, match=r"credentials cannot be read: .*secret: No such file"):
        store.list("")
    secret.write_text("")
    with pytest.raises(NotReady, match="secret is empty"):
        store.list("")
    store.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"access_key": ""}, "set E3RG_MEMORY_S3_ACCESS_KEY or E3RG_MEMORY_S3_ACCESS_KEY_FILE, one of the two"),
        ({"secret_key_file": "/run/secret"}, "set E3RG_MEMORY_S3_SECRET_KEY or E3RG_MEMORY_S3_SECRET_KEY_FILE, one"),
        ({"endpoint": "http://s3:9000"}, "s3_endpoint"),
        ({"bucket": "No_Bucket"}, "s3_bucket"),
        ({"timeout_s": "0"}, "s3_timeout_s"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], text: str
) -> None:
    for name, value in environment("s3:9000", **changes).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=text):
        Settings()  # type: ignore[call-arg]


def test_the_buckets_name_is_that_of_the_fixture(s3_store: S3Backend, s3_server: S3Server) -> None:
    s3_store.put("a/b", b"x")
    assert [each.object_name for each in client(s3_server).list_objects(BUCKET, recursive=True)] == ["a/b"]
