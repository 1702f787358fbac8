"""Node types that talk to whoever called: `respond` answers a webhook, `waitForWebhook` waits for a call."""
