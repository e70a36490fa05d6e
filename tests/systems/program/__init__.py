"""A program as a target, without a server."""
