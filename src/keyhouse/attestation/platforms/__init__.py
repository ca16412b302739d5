"""The platforms that give quotes and sealing keys: SGX under Gramine, TDX, or a simulation."""
