"""Makes the bucket of the bundled object store, as its administrator; the memory itself may not."""

import os
from pathlib import Path

from minio import Minio

keys = [Path("/secrets/store", name).read_text() for name in ("admin-access-key", "admin-secret-key")]
store = Minio(endpoint=os.environ["ENDPOINT"], access_key=keys[0], secret_key=keys[1], secure=False)
bucket = os.environ["BUCKET"]
if not store.bucket_exists(bucket_name=bucket):
    store.make_bucket(bucket_name=bucket)
print(f"bucket {bucket} is there")
