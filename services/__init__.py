"""The services of the deployment; one folder each, one process each."""

import os

# ONNX Runtime tells its maker which models are loaded, from where and how fast, unless this is set before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
