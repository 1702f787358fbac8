"""Console output of user code: `lines` is the API for handlers and steps, `console` collects, stores and announces
it."""
