"""Handing the data key from replica to replica: what is written, and who may be given it."""
