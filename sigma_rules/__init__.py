"""Sigma detection rules as subscriptions: who says what between a rule, its expression and a log event.

The folder is not called `sigma` because that is the import name of the parser (pySigma, the extra ``sigma``).

The work is split in two, so that a rule needs nothing but the expression language, and a normalised log
event is an ordinary event that may go to a live cluster, to `Engine` or to the naive matcher alike:

- **Rules** (`rules`, `expressions`, `logsources`). `rules.load_rules` turns rule files into expression trees,
  with the rule's id as the subscription's id. An expression tests the event's own attributes by the rule's
  field names, its log source included (``Channel`` and ``EventID``). It relies on what a normalised event
  promises: every value is there as its **text**, and a field that the event lacks is there under its alias.
- **Events** (`events`). `events.normalise` turns one decoded JSON event into one normalised event; it is the
  reference for every faster reader.

How each rule of the contract is said:

=============================  ==============================================================================
text, wildcards, windash,      ``= in prefix suffix contains like`` with `ignore_case` on the value's text
base64                         (``cased``: without); a pattern's parts are taken as parsed, never rendered
text pattern on an integer     the normalised value is the integer's decimal text
a rule's number ``3``          ``IN (3, "3")``: the number is for floats, which are there as number and text
a rule's ``true``, ``false``   ``= "true" IGNORE CASE``: the normalised value is that text
null, empty list, missing      left out of the normalised event; ``field: null`` is ``NOT EXISTS``
``lt lte gt gte``              the number, or a regular expression of all decimal texts in that range
``fieldref``                   the comparison of two attributes, with `ignore_case`
keywords                       ``ANY ATTRIBUTE CONTAINS`` (an alias adds a name, and no new text)
aliases                        a field that the event lacks is added, with the values of its alias
=============================  ==============================================================================
"""
