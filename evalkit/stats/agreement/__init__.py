"""Judges among themselves: disagreement per item, reliability over the corpus, pairs of judges, judges by samples."""
