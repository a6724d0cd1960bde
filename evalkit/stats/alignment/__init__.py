"""Judges against people: agreement with human labels, beside the agreement of the people themselves."""
