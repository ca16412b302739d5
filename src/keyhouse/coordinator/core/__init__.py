"""The pure core: the state, the events that change it, and what decides about them. No I/O."""
