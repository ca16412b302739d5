"""Run the single writer: batches of commands, opening and recovery of the state."""
