"""The coordinator as a process: settings, start, listeners and shutdown."""
