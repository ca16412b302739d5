"""Verifying reports of SEV-SNP."""
