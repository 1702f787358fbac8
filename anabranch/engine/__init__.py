"""The engine: pure rules, the stores that keep their events, and the shell that moves data between them."""
