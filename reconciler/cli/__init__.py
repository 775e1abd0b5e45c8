"""The command line: a module for each verb, or for the few that belong together (`verbs.py` lists them)."""
