"""Traffic wakes idle Services: connections to an idle Service are accepted, held, and handed to its first ready pod."""
