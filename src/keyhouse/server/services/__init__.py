"""The use cases of the coordinator: what a request does, whatever its protocol."""
