"""Reports of SEV-SNP, with the collateral of AMD."""
