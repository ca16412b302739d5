"""A quote as bytes: its form, its report, its binding, and the verdict after verification."""
