"""Trains what the mllm back-ends ship; no service imports it."""
