"""What runs wait for: signals and children."""
