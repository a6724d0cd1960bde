"""The command line: one module for each group of commands. A command parses, calls evalkit and prints.

Nothing heavy is imported before a command runs, so that ``--help`` is there at once.
"""

from evalkit.cli.main_command import main

__all__ = ["main"]
