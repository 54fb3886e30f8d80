"""After the last round: evaluate the shared adapter, evolve alone, choose what is served.

Each step is idempotent: what an earlier attempt has stored is not done again.
"""

from hansa.api.assignment import EvaluateReport
from hansa_client import alone, personalize
from hansa_client import evaluation as evaluations
from hansa_client.round import check_world, evaluate, find_evaluation
from hansa_client.silo import Silo


def evaluate_only(silo: Silo) -> EvaluateReport:
    """Measure the last adapter, and what the silo would have had without it; report both."""
    assignment, ledger = silo.assignment, silo.ledger
    owner = silo.find_owner()
    start = find_evaluation(silo)
    if ledger:
        ledger.check_budget(trains=False, evaluates=start is None)
    served = personalize.find(silo.private, assignment)
    is_choice_open = personalize.is_wanted(assignment) and not served
    if not start or is_choice_open:
        check_world(silo)
    start = start or evaluate(silo, silo.load(owner))
    by_itself = alone.evolve(silo) if alone.is_wanted(assignment) else None
    without_others = None
    if by_itself:  # measured on the tasks of the shared adapter
        without_others = find_evaluation(by_itself) or evaluate(by_itself, by_itself.load(None))
        silo.watch.lap("alone")
    if is_choice_open:
        candidate = by_itself.load(None).global_adapter if by_itself else None
        served = personalize.choose(silo, silo.load(owner), start, candidate)
    return EvaluateReport(
        environment=assignment.environments.index(assignment.environment),
        evaluation=evaluations.make_report(start),
        personal=served.figures() if served else None,
        serves=served.choice if served else "",
        alone=evaluations.count_successes(without_others) if without_others else None,
        epsilon=ledger.epsilon if ledger else None,
        seconds={} if ledger else silo.watch.seconds,
    )
