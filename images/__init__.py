"""The container images: which there are, what is installed in them (`requirements`), how they are built."""
