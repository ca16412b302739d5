"""Keys on PKCS #11 tokens. Needs the extra ``keyhouse[pkcs11]``."""
