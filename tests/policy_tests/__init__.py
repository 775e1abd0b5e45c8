"""Tests of the tests of policies: what cases say, how they are played, what is told."""
