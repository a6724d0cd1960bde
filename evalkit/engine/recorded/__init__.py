"""Judgments of others: replies and scores that evalkit did not ask for."""
