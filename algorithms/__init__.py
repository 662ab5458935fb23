"""Matchers of the papers behind one interface (`interface.Matcher`), by name (`registry.MATCHERS`).

They are rivals of the cluster's own engine and means to redraw the papers' figures: correct on all that their
language has, and plain about what it has not. None of them is needed to run a cluster.
"""
