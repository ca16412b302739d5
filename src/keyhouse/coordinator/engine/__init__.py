"""The one writer: batches of commands, made durable and published; opening and recovery."""
