"""A manifest as people write it: YAML, places in the text, the schema for editors."""
