"""Columns on their way to a worker and back: the same values, missing ones too."""
