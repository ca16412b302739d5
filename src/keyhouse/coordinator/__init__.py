"""The trusted state: what may change it, how it changes, and the one writer."""
