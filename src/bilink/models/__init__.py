"""What a score is: one file per model, and the scorer that the rest of bilink sees."""
