"""The command: parses, calls the API, prints. Knows nothing of how an answer is found."""
