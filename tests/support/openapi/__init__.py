"""The generator of the OpenAPI description: the coordinator serves its result as a file."""
