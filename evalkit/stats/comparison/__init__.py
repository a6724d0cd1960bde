"""What changed between two evaluations, and what sampling alone explains of it."""
