"""Image files to pixels, tasks, and where tasks come from."""
