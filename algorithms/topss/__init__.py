"""Matchers of TOPSS.

Ashayer, Leung, Jacobsen, "Predicate Matching and Subscription Matching in Publish/Subscribe Systems"
(2002).
"""
