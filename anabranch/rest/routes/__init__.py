"""The routes of the REST API, and the table of all of them."""
