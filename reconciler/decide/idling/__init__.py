"""What is idled, what is woken, and what is put right on the way."""
