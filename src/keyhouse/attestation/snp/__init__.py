"""Verifies reports of SEV-SNP."""
