"""Real processes, `keyhouse` and tools: their start, and observations of them."""
