"""From matches to subscribers: who listens, what a publication tells them, and by which way."""
