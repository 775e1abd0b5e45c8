"""What is idled, what is woken, and what is repaired on the way."""
