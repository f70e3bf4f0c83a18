"""A run over HTTP, and the page that explores it."""
