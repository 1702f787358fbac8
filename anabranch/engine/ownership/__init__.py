"""Which runs this process advances: leases, claims, adoption, and changes made by other processes."""
