"""The processes of a run: its owner, LightEval's command, the child process and its guard."""
