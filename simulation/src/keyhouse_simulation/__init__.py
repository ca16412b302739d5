"""A software DCAP platform: true quotes under a root of its own. For trying out and testing only."""
