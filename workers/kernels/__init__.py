"""Numba kernels and, beside each, its plain reference."""
