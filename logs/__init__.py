"""Log files as events, and rules matched over them line by line; see the module docstrings."""
