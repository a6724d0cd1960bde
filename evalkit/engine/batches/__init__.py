"""Tickets of batches: requests written to files, sent, polled, and read into the store."""
