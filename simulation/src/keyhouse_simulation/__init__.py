"""A software DCAP platform: true quotes under a root of its own, for trying out and testing."""
