"""The plan that this workflow run has already: a re-run of CI adds attempts to it."""

from evalhub.protocol.plan import Plan
from evalhub.runner.client import Store
from evalhub.runner.documents import JsonObject, as_document


def plan_of_workflow_run(store: Store, project: str, *, suite: str, run: int) -> JsonObject | None:
    """Return the document of the newest plan of a project, workflow run and suite; None if none.

    A cancelled one takes no attempts any more, so it is passed over.
    """
    answer = store.plans({"workflow_run_id": run, "suite": suite, "project": project})
    for listed in answer.get("plans", []):
        if listed.get("cancelled"):
            continue
        document = store.plan(listed["digest"]).get("document")
        if isinstance(document, dict):
            plan = as_document(document, Plan, what="plan at the store").model
            if (plan.project, plan.suite.name) == (project, suite):
                return document
    return None
