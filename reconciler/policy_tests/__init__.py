"""Tests of policies: cases are played on clusters in memory, and compared with what is expected."""
