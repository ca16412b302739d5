"""A quote as bytes: its form, the report in it, and what a verified one says."""
