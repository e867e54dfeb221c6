"""Rules of the engine as pure functions and values. Standard library only."""
