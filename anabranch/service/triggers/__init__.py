"""The verbs of schedules and topics."""
