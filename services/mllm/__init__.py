"""The mllm service."""
