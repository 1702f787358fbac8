"""Triggers: schedules start runs at times, topics start runs for messages."""
