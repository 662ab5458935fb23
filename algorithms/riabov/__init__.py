"""Matchers of RIABOV.

Riabov, Liu, Wolf, Yu, Zhang, "New Algorithms for Content-Based Publication-Subscription Systems" (ICDCS
2003).
"""
