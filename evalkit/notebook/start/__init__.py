"""The start card: columns of a table and what they are."""
