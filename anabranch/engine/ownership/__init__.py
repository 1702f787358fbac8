"""Which runs this process advances: leases, adoption, recovery, and changes made by other processes."""
