"""The bundle: its schema, its writer and its reader. The one thing that recorder and analyzer share."""
