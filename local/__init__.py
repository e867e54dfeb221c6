"""The developer's machine: embedded AWS, GraphQL front, command line and demo."""
