"""Tests of what reviews a change of policies: the verb `ci`, the action, the workflows."""
