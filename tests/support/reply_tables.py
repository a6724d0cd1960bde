"""Many replies in one text."""


def replies_in(text: str) -> list[str]:
    """The replies of a text: `¦` ends one, and `⏎` stands for a line break within it."""
    return [reply.strip(" \n").replace("⏎", "\n") for reply in text.split("¦")]
