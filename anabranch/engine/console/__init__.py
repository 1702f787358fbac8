"""What code of users says while it runs: `lines` is its side, `console` collects, keeps and tells it."""
