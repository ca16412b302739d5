"""The kinds of evidence: ``table`` has a row for each kind, each vendor has a folder."""
