"""What a deployment's transparency log proves to outsiders, checked with no network. No I/O."""
