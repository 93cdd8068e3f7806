"""The documents of config/: one pydantic model each, with key names, types, bounds, defaults and explanations."""
