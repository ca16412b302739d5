"""The platforms: SGX under Gramine, confidential VMs, and a simulation."""
