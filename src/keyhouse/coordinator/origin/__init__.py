"""Where the root of a state comes from: what each start checks before it serves that state."""
