"""Reads faces, voices and texts: used by voters, by generators and by the tests that measure what they make."""

import os

# ONNX Runtime tells its maker which models are loaded, from where and how fast, unless this is set before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
