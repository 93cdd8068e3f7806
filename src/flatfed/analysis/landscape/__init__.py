"""The loss around runs' models, and between two of them."""
