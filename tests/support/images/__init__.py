"""The images: their instructions, carried out without an engine."""
