"""The coordinator as a process: settings, start, and how its parts fit together."""
