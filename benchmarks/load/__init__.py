"""The load tool: `python -m benchmarks.load` for operators, and a library for tests and other benchmarks."""

from benchmarks.load.background import in_background
from benchmarks.load.errors import ProfileError
from benchmarks.load.generator import Load, run
from benchmarks.load.messages import Message, Mix
from benchmarks.load.profile import Profile
from benchmarks.load.ramp import Stage
from benchmarks.load.result import Result
from benchmarks.load.turn import Turn

__all__ = ["Load", "Message", "Mix", "Profile", "ProfileError", "Result", "Stage", "Turn", "in_background", "run"]
