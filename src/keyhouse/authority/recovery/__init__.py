"""Recovery: shares of the data key, the index beside the journal, and what holders submit."""
