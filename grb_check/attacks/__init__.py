"""Attacks: what they may do, how they are named, and the built-in ones.

- `threat`: the referee. What an attack may do (`Threat`), what it did (`Perturbation`), and the
  check that the one allows the other. `budgets`: the threat to a dataset.
- `protocol`: what the harness asks of an attack (`Attack`) and gives to it (`DifferentiableModel`).
- `registry`: one row for each built-in attack; from a name to an attack. `names`: modifiers.
  `setting_values`: their values. `user_attacks`: users' attacks.
- `injection`, `modification`, `poisoning`: the built-in attacks, one file each, named as the attack
  is; what several of a scenario share is in `shared`. `graph_sets`: attacks on sets of graphs.
- `query_search`: search by a model's answers among parts of known perturbations.
- `objectives`: what attacks maximise.

May import `errors`, `user_code`, `files` and `datasets`, the last in `budgets` alone. Attacks know
tensors, threats and differentiable models; they know neither names of datasets nor files nor gates.
Inside, each line of this list imports only the ones after it:

    budgets
    registry
    user_attacks, query_search
    graph_sets, poisoning
    injection, modification
    setting_checks
    objectives, names, protocol
    setting_values
    threat
    scenarios

May be imported by every later package.
"""
