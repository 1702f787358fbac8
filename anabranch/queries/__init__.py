"""Run SQL of users on their databases, within limits; saved queries are in `saved`."""
