"""Matchers of RR-4089.

Fabret, Llirbat, Jacobsen, Pereira, Ross, Shasha, "Efficient Matching Algorithms for Publish and
Subscribe Systems" (INRIA research report RR-4089, 2000).
"""
