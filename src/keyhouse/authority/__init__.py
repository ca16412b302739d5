"""Keys, certificates, secrets and recovery shares: makes and reads them, knows no state."""
