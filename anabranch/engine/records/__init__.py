"""What a store keeps beside runs, and the ports to it."""
