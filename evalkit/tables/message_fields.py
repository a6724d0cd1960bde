"""What the fields of a message hold, by their names, whoever wrote them: words, files, or notes for no judge to see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from evalkit.tables.typed_messages import ROLES

_LONGEST_NAME = 100  # longer names are none that a program gives, and slow to match
_DEEPEST = 20  # metadata are not looked at below
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")
_FILES = re.compile(
    r"(?:experimental_|input_|inline_|user_|uploaded_|attached_|generated_|output_)?"
    r"(?:(?P<image>image|img|photo|picture|screenshot)|(?P<audio>audio|voice_(?:message|note)|recording)|(?P<video>video)"
    r"|(?P<file>file|attachment|media|document|doc|upload|pdf|blob))s?(?:_(?:url|uri|id|data|base64|b64|ref|file|list))?s?"
    r"|(?P<path>image|audio|video)_paths?"
)
# who answered; what the program noted about it; what people or judges thought of it
_NOTES = re.compile(
    r"models?|model_\w+|(?:base|chat|language|ai|llm|completion|default|generator)_model(?:_\w+)?|llm\w*|engine|endpoint"
    r"|deployment\w*|provider\w*|generator|(?:generated|answered|written)_by|system_fingerprint|service_tier"
    r"|response_metadata|(?:\w+_)?usage(?:_\w+)?|(?:\w+_)?tokens?(?:_count\w*)?|(?:\w+_)?(?:latency|duration|costs?)(?:_\w+)?"
    r"|id|uuid|(?:\w+_)?(?:message|msg|parent|run|trace|span|thread|session|conversation|chat|request|response|turn|step"
    r"|generation|completion|item|observation|user|assistant|container|approval_request)_(?:uu)?id|children\w*|object|index|done|example|weight|trainable|lc_\w+"
    r"|(?:\w+_)?(?:finish|stop)_reason|stop_sequence|lang(?:uage)?|locale|time_?zone|user_agent|logprobs|cache_control|(?:\w+_)?timestamps?|date|datetime|time"
    r"|(?:create|update|sent|start|end|complete|finish)(?:e?d)?(?:_(?:at|time|date|on))|created|updated"
    r"|(?:\w+_)?(?:feedbacks?|scores?|ratings?|rated|verdicts?|rewards?|grades?|graded|thumbs?|upvote[sd]?|downvote[sd]?"
    r"|votes?|annotators?|assessments?|evaluations?|evals?|judge?ments?|dislike[sd]?|stars|csat|nps|reactions?|emojis"
    r"|correctness)(?:_\w+)?|(?:\w+_)?labels?|(?:is_)?(?:liked|correct|incorrect|accepted|rejected|preferred|chosen"
    r"|approved|helpful|flagged|passed)|rank|preference|review_(?:result|count)|annotation|human_\w+"
    r"|turn_(?:idx|index|number|identifier)|(?:is_)?toxic(?:ity)?(?:_\w+)?|(?:\w+_)?moderation(?:_\w+)?"
)
_ENDINGS = re.compile(
    r"(?P<image>\bimage/|\.(?:png|jpe?g|gif|webp|bmp|tiff?|heic|avif)\b)|(?P<audio>\baudio/|\.(?:mp3|wav|ogg|flac|m4a)\b)"
    r"|(?P<video>\bvideo/|\.(?:mp4|mov|webm|avi)\b)", re.IGNORECASE)  # fmt: skip
ABOUT = {"metadata", "meta", "extra", "extras", "extra_info", "info", "attributes", "custom"}
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_WORDS, _READ = ("text", "content", "snippet", "page_content", "transcript"), ("role", "content", "additional_kwargs")
_NO_NEWS = {"status": ["success", "completed", "in_progress", "done"], "type": ["message", "chat", *ROLES],
            "source": ["input", "generate", "operator"],
            "message_type": ["system_prompt", "action", "observation"]}  # fmt: skip


def _plain_name(name: str) -> str:
    return _HUMP.sub("_", name).lower().strip("_") if len(name) <= _LONGEST_NAME else ""


@lru_cache(4096)
def _is_note(name: str) -> bool:
    return bool(_NOTES.fullmatch(_plain_name(name))) and not _FILES.fullmatch(_plain_name(name))


def fields_beside(message: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """The fields of a message beside its role and content, without notes about it and without empty ones.

    With a `depth`, the mapping stands so deep in the message's metadata, where all names of notes count.
    """
    inner = message.get("additional_kwargs")
    fields = [*(inner.items() if isinstance(inner, Mapping) else ()), *message.items()]
    beside: dict[str, Any] = {}
    for name, raw in fields:
        value = _without_notes(raw, depth + 1) if depth or _plain_name(name) in ABOUT else raw
        is_noted = (name in _READ and "role" in message) or _is_note(name)
        if not is_noted and value not in _EMPTY and str(value) not in _NO_NEWS.get(name, ()):
            beside[name] = value
    return beside


def _without_notes(value: Any, depth: int) -> Any:
    if depth > _DEEPEST or not isinstance(value, (Mapping, list)):
        return value
    if isinstance(value, Mapping):
        return fields_beside(value, depth)
    return [inner for element in value if (inner := _without_notes(element, depth + 1)) not in _EMPTY]


def kind_of_files(name: str, value: Any) -> str | None:
    """``image``, ``audio``, ``video`` or ``file`` if a field holds such things by its name; None if it holds words."""
    match = _FILES.fullmatch(_plain_name(name))
    if match is None or isinstance(value, bool) or value in _EMPTY:
        return None
    for item in value if isinstance(value, list) else [value]:
        texts = (
            [item.get(key) for key in _WORDS] if isinstance(item, Mapping) else [item if "doc" in match[0] else None]
        )
        if not any(isinstance(text, str) and len(text.split()) > 1 + ("doc" in match[0]) for text in texts):
            kind = match["path"] or str(match.lastgroup)
            return (kind_at(str(value)) if kind == "file" else None) or kind
    return None


def kind_at(path: str) -> str | None:
    """``image``, ``audio`` or ``video`` by the ending of a path or a media type; None by any other."""
    ending = _ENDINGS.search(path)
    return ending.lastgroup if ending else None
