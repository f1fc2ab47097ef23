"""Readers of the old file formats the public datasets come in; none of them can run code from a file."""
