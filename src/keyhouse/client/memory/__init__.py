"""A client's memories of coordinators: their states, logs and lines."""
