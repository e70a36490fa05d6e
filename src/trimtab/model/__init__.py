"""LEARN: statistical models of numbers; they know features and values, and nothing of knobs, trials or files."""
