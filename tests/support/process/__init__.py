"""Real processes: `keyhouse` itself, tools beside it, and how they are started and watched."""
