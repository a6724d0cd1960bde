"""Reports: an evaluation as one HTML file that needs no other file."""
