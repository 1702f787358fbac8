"""Dead letters: jobs that no executor could take, kept in the database and listed."""
