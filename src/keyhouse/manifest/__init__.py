"""What may run and who may do what: bytes in, a checked manifest or every problem at once. Pure."""
