"""Everything that a store on S3 can be asked, for tests that disturb it."""

from collections.abc import Callable

from services.memory.backends.s3 import S3Backend


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
