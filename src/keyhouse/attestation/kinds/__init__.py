"""The kinds of evidence. The table has a row for each kind; a folder reads and verifies it."""
