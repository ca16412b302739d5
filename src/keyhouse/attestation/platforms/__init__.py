"""The platforms: SGX under Gramine, TDX, SEV-SNP, and a simulation."""
