"""Rival matchers, behind one interface."""
