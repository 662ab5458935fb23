"""The papers' experiments, redrawn: ``pubsub-cluster reproduce FIGURE``.

Each experiment (`figures.FIGURES`) returns an `outcome.Outcome`: lines of a CSV, a drawing, and a verdict on
each claim that it decides, by the condition that the claim states (``claims`` of each paper) and nothing
else.
"""
