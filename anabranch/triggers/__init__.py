"""Triggers: what starts runs by itself. Schedules, topics, webhooks, and failures of other runs."""
