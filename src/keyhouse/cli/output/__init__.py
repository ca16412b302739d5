"""Output of commands: text, tables, JSON and files."""
