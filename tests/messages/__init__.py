"""What frameworks really say: messages that were provoked, and how."""
