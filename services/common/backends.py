"""Finds back-ends: the modules of a service's `backends` package. Listing them imports none of them."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType


def names(package: str) -> list[str]:
    """Returns the names of the back-ends in `package` ("services.tts.backends")."""
    found = importlib.util.find_spec(package)
    if found is None or found.submodule_search_locations is None:
        raise LookupError(f"{package} is not a package")
    return sorted(module.name for module in pkgutil.iter_modules(found.submodule_search_locations))


def load(package: str, name: str) -> ModuleType:
    """Imports the back-end `name` of `package`.

    Raises:
        LookupError: There is no such back-end; the message lists those there are.
        ImportError: It exists, but something that it needs is not installed; the message names it.
    """
    known = names(package)
    if name not in known:
        raise LookupError(f"{package} has no back-end {name!r}; it has: {', '.join(known)}")
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"back-end {name!r} needs {error.name}, which is not installed in this image; each back-end has an "
            "extra of the package e3rg (`pip install 'e3rg[EXTRA]'`), and docs/models.md names those of the models"
        ) from error
