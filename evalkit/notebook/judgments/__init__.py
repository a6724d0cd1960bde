"""The table of judgments: headline numbers, items, one item; the browser."""
