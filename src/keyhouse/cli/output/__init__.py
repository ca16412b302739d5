"""How commands speak: text, tables, JSON, and files."""
