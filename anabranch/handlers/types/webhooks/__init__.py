"""Node types for HTTP callers: `respond` answers a webhook, `waitForWebhook` waits for a call of a one-time address."""
