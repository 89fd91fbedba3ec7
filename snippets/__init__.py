"""The code that the site teaches: the trainer, its data, the examples and their records."""
