"""What people do with a taught model: serve it, show it in the browser, export it, share it."""
