"""A private internet for end-to-end tests; `tests.e2e.internet` is the way in."""
