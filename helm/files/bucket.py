"""Makes the bucket of the bundled object store, as its administrator; the memory itself may not."""

import os
import sys
from pathlib import Path

from minio import Minio
from minio.error import MinioException
from urllib3.exceptions import HTTPError

keys = [Path("/secrets/store", name).read_text() for name in ("admin-access-key", "admin-secret-key")]
store = Minio(endpoint=os.environ["ENDPOINT"], access_key=keys[0], secret_key=keys[1], secure=False)
bucket = os.environ["BUCKET"]
try:
    if not store.bucket_exists(bucket_name=bucket):
        store.make_bucket(bucket_name=bucket)
except (HTTPError, MinioException) as error:
    sys.exit(f"the object store does not do it yet: {error}")
print(f"bucket {bucket} is there")
