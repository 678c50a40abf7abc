"""Starts a service, and says in plain lines why it does not start."""

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from services.common.errors import ServiceError

log = logging.getLogger(__name__)

WRONG_SETTINGS = 2
"""Exit status when a setting is wrong."""
NO_START = 1
"""Exit status when the settings can be, but the start failed."""
STOPPED = 128 + signal.SIGTERM
"""Exit status when SIGTERM broke the start off."""


def run(service: str, main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Runs a service until it ends.

    What an operator can mend (a setting, a missing file or library, a server that is away, a port that is taken) is
    told in a line each on standard error, without a traceback; the log has it at DEBUG. Whatever else fails, and
    whatever fails after the start, is raised as it is.

    Args:
        service: Its name ("mllm"), which the prefix of its settings has in it.
        main: Serves; sets the event that it is given once the service is ready.

    Raises:
        SystemExit: The start failed, with one of the statuses above, or was broken off by SIGTERM.
    """
    started = asyncio.Event()
    # The first process of a container ignores what it does not handle, and loading a model takes minutes; once the
    # server runs, it handles the signal itself.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    try:
        asyncio.run(main(started))
    except SystemExit as stopped:
        if not started.is_set() and stopped.code == STOPPED:
            os._exit(STOPPED)  # A model that is being loaded on its thread cannot be stopped.
        raise
    except (ServiceError, ImportError, LookupError, OSError, ValueError) as error:
        # A key or an index that is not there is a mistake of ours, not of who set something.
        if started.is_set() or isinstance(error, (KeyError, IndexError)):
            raise
        if isinstance(error, (ValidationError, SettingsError)):
            lines, status = list(problems(f"E3RG_{service.upper()}_", error)), WRONG_SETTINGS
        else:
            log.debug("no start", exc_info=True)
            reason = " ".join(str(error).split()) or type(error).__name__
            lines, status = [f"{service} cannot start: {reason}"], NO_START
        sys.stderr.writelines(f"{line}\n" for line in lines)
        raise SystemExit(status) from None


def problems(prefix: str, error: ValidationError | SettingsError) -> Iterator[str]:
    """Yields a line for each wrong setting: the environment variable, and what would be right.

    What it was set to may be secret and does not stand there, unless a check of our own says it.

    Args:
        prefix: What the names of the variables begin with ("E3RG_MLLM_").
        error: What reading the settings raised.
    """
    if isinstance(error, SettingsError):
        field = re.search(r'field "(\w+)"', str(error))
        yield f"{prefix}{field[1].upper()}: it must be JSON" if field else f"{prefix}*: {error}"
        return
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        field_name, *within = [str(part) for part in problem["loc"]] or ["*"]
        name = ".".join([prefix + field_name.upper(), *within])
        yield f"{name}: {problem['msg'].removeprefix('Value error, ')}"
