"""See the module docstrings; docs/ARCHITECTURE.md has the map."""
