"""WHAT IT MEANS: verdicts, conclusions, the check, and the pages that show several wings."""
