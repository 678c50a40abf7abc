"""The store on S3 by TLS, and when the settings are not as they should be."""

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from minio import Minio
from minio.versioningconfig import VersioningConfig

from services.common.errors import NotReady
from services.memory.backends.s3 import S3Backend, Settings
from services.memory.s3.bucket import Bucket
from services.memory.s3.credentials import Keys
from services.memory.s3.trial import try_bucket
from services.memory.store import Object, content_of
from tests.fake_store import FakeStore
from tests.s3_operations import OPERATIONS, operations
from tests.s3_proxy import Flipping, S3Proxy
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, environment, open_store, settings

TLS = Path(__file__).parent / "tls"
"""A certificate of this machine that certifies itself, until 2126, and its key."""


def client(server: S3Server) -> Minio:
    """Another's way to the bucket."""
    return Minio(server.endpoint, ACCESS_KEY, SECRET_KEY, secure=False, region="us-east-1")


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
    sent: list[str] = []
    tls_proxy.requests = lambda request, piece: sent.append(request) or piece  # type: ignore[func-returns-value]
    with store.ahead([("a/b", "")], []):
        assert content_of(store.get("a/b")) == content
    assert len(sent) == 1
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
