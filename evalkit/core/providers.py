"""The providers: one record holds all that evalkit knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple


class Provider(NamedTuple):
    """All that is known of a provider; its module in `evalkit.engine.providers` has its name, with underscores.

    Those of decision models share the module `decisions`.

    Attributes
    ----------
    meaning
        Its description.
    host
        The host that its key is for; ``local``: in this process.
    key_variable, url_variable
        The variables that contain the key and another base URL.
    address
        Where calls go without `base_url`, as `check_server` shows it.
    packages
        The packages of the extra of its name.
    logprobs
        Whether its replies can have log-probabilities.
    seeds
        Whether it sends the seed of each sample to a server.
    batches, batch_share
        The module that sends its batches, and their price at its own host as a share of that of live calls.
    price_list
        Its id in genai-prices.
    in_lighteval
        Whether it is a `judge_backend` of a scoring config.
    decides
        Whether its models return probabilities of answers to questions, and no text.
    takes_images
        The models at its own host that take images, as a regular expression; None: the provider sends none.
    most_images
        The most images of one request, if that is known of its form.
    takes_detail
        Whether it sends how closely a model looks at an image.
    body_params
        The only parameters of a request that it takes; None: any.
    """

    meaning: str
    host: str = "local"
    key_variable: str | None = None
    url_variable: str | None = None
    address: str = ""
    packages: tuple[str, ...] = ()
    logprobs: bool = True
    seeds: bool = False
    batches: str | None = None
    batch_share: float = 1.0
    price_list: str | None = None
    in_lighteval: bool = True
    decides: bool = False
    takes_images: str | None = None
    most_images: int | None = None
    takes_detail: bool = True
    body_params: tuple[str, ...] | None = None


_DATE = r"(-\d{4}-\d\d-\d\d)?"

PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        "OpenAI, or any OpenAI-compatible server (base_url)", "api.openai.com", "OPENAI_API_KEY", "OPENAI_BASE_URL",
        "https://api.openai.com/v1", seeds=True, batches="openai_batches", batch_share=0.5, price_list="openai",
        takes_images=rf"(gpt-4o|gpt-4o-mini|gpt-4\.1|gpt-4\.1-mini|gpt-4\.1-nano|gpt-5|gpt-5-mini|gpt-5-nano|o1|o3|o4-mini){_DATE}",
    ),
    "anthropic": Provider(
        "Anthropic, by its Messages API", "api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com", ("anthropic",), logprobs=False, batches="anthropic_batches", batch_share=0.5,
        price_list="anthropic", takes_images=r"claude-(3|opus|sonnet|haiku)-.+", takes_detail=False,
    ),
    "litellm": Provider(
        "any service that LiteLLM reaches", "litellm", address="its provider's address in litellm",
        packages=("litellm",), seeds=True,
    ),
    "inference-providers": Provider(
        "Hugging Face Inference Providers", "router.huggingface.co", "HF_TOKEN",
        address="https://router.huggingface.co/v1", seeds=True,
    ),
    "decisions": Provider(
        "decision models at OpenAI, or any server that speaks its POST /v1/decisions (base_url)", "api.openai.com",
        "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", price_list="openai-decisions", decides=True,
        takes_images=rf"gpt-6-luna{_DATE}", most_images=128,
        body_params=("prompt_cache_key", "prompt_cache_options", "safety_identifier"),
    ),
    "systemone": Provider(
        "decision models at TypeSafe, or any server that speaks its POST /v1/systemone (base_url)", "api.typesafe.ai",
        "TYPESAFE_API_KEY", address="https://api.typesafe.ai/v1", price_list="typesafe", decides=True, body_params=(),
        takes_images="", takes_detail=False,
    ),
    "transformers": Provider("a model that evalkit loads, by transformers", packages=("torch", "transformers")),
    "vllm": Provider("a model that evalkit loads, by vLLM", packages=("vllm",)),
    "function": Provider("a Python function, as module:function (see Judge.function)", in_lighteval=False),
    "fake": Provider("an embedded stand-in, not an LLM: free, offline, deterministic"),
}  # fmt: skip
"""All providers. ``none`` is not a provider: it means that no judge is called."""

_IN_LIGHTEVAL = [name for name, provider in PROVIDERS.items() if provider.in_lighteval]
BACKENDS = (*_IN_LIGHTEVAL[:-1], "tgi", _IN_LIGHTEVAL[-1])
"""`judge_backend` of a scoring config: the providers, and ``tgi``, an OpenAI-compatible server."""
if TYPE_CHECKING:
    Backend = str
else:  # for pydantic, which names what is allowed
    Backend = Literal[BACKENDS]
