"""Sections of generated reference pages."""
