"""Traffic wakes what is idle: connections to an idle Service are accepted, held, and handed to its first ready pod."""
