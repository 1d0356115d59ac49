"""WHAT SHOULD RUN, AND WITH WHAT MEANS: projects, judge budgets, plans and their attempts."""
