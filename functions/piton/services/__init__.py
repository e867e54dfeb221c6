"""Use cases: what happens when a command, a message or a sweep arrives."""
