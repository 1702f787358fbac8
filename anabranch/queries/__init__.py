"""SQL of people, run on databases of people, within limits; what they have saved is in `saved`."""
