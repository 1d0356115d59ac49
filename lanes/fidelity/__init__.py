"""How faithful simulators are: probe results, match rates, alarms. Knows plans only as text keys."""
