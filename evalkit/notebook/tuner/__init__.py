"""The tuner: drafts, runs, labels and suggestions of a session, and the widget."""
