"""What starts runs by itself: schedules, by the clock, and topics, by messages."""
