"""A manifest as people write it: YAML, positions in the text, the schema for editors."""
