"""System calls by family: plumbing without policy. Every failure is an `OSError`."""
