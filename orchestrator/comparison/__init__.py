"""Statistics that tell which variant is better. Pure: no I/O, no gRPC, no protobuf."""
