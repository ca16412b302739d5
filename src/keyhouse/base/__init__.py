"""Shared by every room: errors, problems and their places, secrets, durable files."""
