"""The diagnosis: evidence from a bundle, rules that judge it, and the engine that orders what they found."""
