"""What modification attacks share: sets of edges, where flips come from, how they are searched.

May import `attacks.protocol`, `attacks.threat`, `attacks.objectives`.
"""
