"""HTTP/1.1: requests in, answers out. Independent of the coordinator."""
