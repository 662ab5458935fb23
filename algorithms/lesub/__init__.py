"""Matchers of LESUB.

Fabret, Llirbat, Pereira, Shasha, "Efficient Matching for Content-Based Publish/Subscribe Systems" (Le
Subscribe, INRIA, 2000).
"""
