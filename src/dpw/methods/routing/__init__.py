"""Which learned task an image belongs to, and how sure we are."""
