"""What tests share: real processes, peers on the network, and samples."""
