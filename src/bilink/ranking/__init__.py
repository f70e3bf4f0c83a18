"""Where an answer stands among its rivals."""
