"""Matchers of HTREE.

Qian, Cao, Zhu, Li, Wang, "H-Tree: An Efficient Index Structure for Event Matching in Content-Based
Publish/Subscribe Systems".
"""
