"""The use cases of the coordinator: the effect of a request, independent of its protocol."""
