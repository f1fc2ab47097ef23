"""Parts that several methods combine."""
