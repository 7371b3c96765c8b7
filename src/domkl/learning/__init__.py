"""Pure computation over J learners: no names, I/O, clock or randomness."""
