"""Both ends of the network: clients of a coordinator, and peers that replace a coordinator."""
