"""The rules. One file each: its name is the rule's id, its class's docstring is the user's page."""
