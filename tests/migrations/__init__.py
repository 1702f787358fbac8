"""What migrations, start-up and outages of a SQL database promise."""
