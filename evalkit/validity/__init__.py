"""Judges against people: agreement with human labels, beside the agreement of the people themselves."""

from evalkit.validity.alignment import align

__all__ = ["align"]
