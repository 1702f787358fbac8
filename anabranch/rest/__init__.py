"""The REST API: a table of routes on aiohttp, its OpenAPI document, and its metrics."""
