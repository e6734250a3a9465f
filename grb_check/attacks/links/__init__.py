"""What injection attacks share: where links go, and how features of injected nodes are searched.

May import `attacks.protocol`, `attacks.threat`, `attacks.objectives`.
"""
