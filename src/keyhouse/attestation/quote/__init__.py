"""A quote as bytes: form, report, binding, and the verdict after verification."""
