"""What each type of n8n becomes: one module per subject, and the table of all of them."""
