"""Rival matchers behind one interface: made from `Rules`, they give the number of matches of each event.

They are measured as they would be used, in the same process and turn as the product, and must give the right
answer in every timed pass. A rival may refuse a workload (`Unfit`) and say why.
"""
