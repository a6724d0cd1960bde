"""The errors of providers that evalkit knows by a code or a fixed fragment of their text, each with its source.

An error that is in no row counts by its HTTP status, and is shown as it came. A fragment is what one provider sends
word for word, where it gives no code; it is no pattern of how errors may be worded, and none is added without a source.
"not looked up" marks those that evalkit knew before sources were asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from evalkit.engine.request import ProblemKind


@dataclass(frozen=True, slots=True)
class KnownError:
    """What an error of a provider means.

    Attributes
    ----------
    kind
        What it is; ``client_error``: the user's to correct.
    provider
        Who sends it; it may come through a router or a proxy.
    source
        Where it is documented, or was reported: a repository and number, or ``docs``, the provider's documentation.
    code
        A value of its fields ``code``, ``type``, ``status`` or ``reason``, in small letters; blank: any.
    text
        A fragment of its message, in small letters; blank: any. With a code, both are needed.
    parameter
        The parameter that it refuses (``refused_parameter``).
    """

    kind: ProblemKind
    provider: str
    source: str
    code: str = ""
    text: str = ""
    parameter: str = ""


_TABLE = """\
# no credit: by code
quota | OpenAI | docs | insufficient_quota
quota | OpenAI | docs | credit_balance_exhausted
quota | OpenAI | docs | organization_spend_limit_exceeded
quota | OpenAI | docs | project_spend_limit_exceeded
quota | OpenAI | docs | organization_usage_limit_exceeded
quota | OpenAI | docs | billing_hard_limit_reached
quota | OpenAI | docs | billing_not_active
quota | Anthropic | docs | billing_error
quota | Alibaba | docs | arrearage
quota | Moonshot | docs | exceeded_current_quota_error
quota | Zhipu | docs | 1113
quota | MiniMax | modelscope#1691 | insufficient_balance_error
quota | MiniMax | docs | 1008 | insufficient balance
quota | Cloudflare | docs | 3036
quota | Novita | docs | not_enough_balance
quota | One API | its source | insufficient_user_quota
quota | LiteLLM's proxy | docs | budget_exceeded
# no credit: by text
quota | OpenAI | LimSim#25 | | read the docs: https://platform.openai.com/docs/guides/error-codes
quota | Anthropic | claude-code#66314 | | your credit balance is too low
quota | Anthropic | claude-code#2127 | | you have reached your specified api usage limits
quota | xAI | continue#10373 | | used all available credits or reached its monthly
quota | xAI | not looked up | | newly created team doesn't have any credits yet
quota | OpenRouter | gptme#1449 | | key limit exceeded
quota | Google | roni#125 | | prepayment credits are depleted
quota | Fireworks | pollinations#12136 | | possibly due to reaching the monthly spending limit
quota | MiniMax | MiniMax-M2#62 | | insufficient balance (1008)
quota | LiteLLM's proxy | its source | | budget has been exceeded! current cost
quota | LiteLLM's proxy | its source | | exceededbudget:
quota | LiteLLM's proxy | its source | | max budget limit reached
quota | Cloudflare | docs | | used up your daily free allocation of
# keys
auth | OpenAI | docs | invalid_api_key
auth | Google | docs | api_key_invalid
auth | MiniMax | docs | 2049 | invalid api key
auth | xAI | continue#10778 | | incorrect api key provided
auth | Google | gemini-cli#4690 | | api key not valid. please pass a valid api key
auth | Google | continue#11336 | | api key expired. please renew the api key
auth | Anthropic | claude-code#19028 | | this organization has been disabled
# one prompt that a filter refuses
content_filter | OpenAI, Azure, Moonshot | docs | content_filter
content_filter | Azure | docs | responsibleaipolicyviolation
content_filter | OpenAI | docs | content_policy_violation
content_filter | OpenAI | docs | invalid_prompt
content_filter | Alibaba | docs | data_inspection_failed
content_filter | Alibaba | Qwen#938 | datainspectionfailed
content_filter | Zhipu | docs | 1301
content_filter | Cloudflare | docs | 2016 | prompt blocked
content_filter | Azure | ragas#649 | | content management policy
content_filter | LiteLLM | docs | | contentpolicyviolationerror
content_filter | OpenRouter | docs | | requires moderation on
content_filter | DeepSeek | DeepSeek-V2#30 | | content exists risk
content_filter | MiniMax | docs | | new_sensitive
# a prompt that is too long
too_long | OpenAI | docs | context_length_exceeded
too_long | llama.cpp | its source | exceed_context_size_error
too_long | TypeSafe | promptfoo's provider | | max_tokens_exceeded
too_long | Zhipu | docs | 1261
too_long | OpenAI, vLLM, Mistral | vllm#20409 | | maximum context length
too_long | vLLM | Empryo#52 | | the model's context length is only
too_long | vLLM | its source | | longer than the maximum model length
too_long | SGLang | its source | | longer than the model's context length
too_long | OpenAI | not looked up | | exceeds the context window of this model
too_long | OpenAI | cline#5474 | | input tokens exceed the configured limit
too_long | Google | gemini-cli#4231 | | exceeds the maximum number of tokens allowed
too_long | Anthropic | claude-code#12186 | | prompt is too long
too_long | Anthropic | continue#6080 | | exceed context limit
too_long | Bedrock | not looked up | | input is too long for requested model
too_long | SiliconFlow | cursor-byok#129 | | has exceeded max_prompt_tokens
too_long | Alibaba | qwen-code#98 | | range of input length should be
too_long | Moonshot | docs | | request exceeded model token limit
too_long | Moonshot | docs | | input token length too long
too_long | Cohere | sandbox-topically#4 | | too many tokens: total number of tokens
too_long | OpenAI, Groq | llm#392 | | please reduce the length of the messages
too_long | TGI | text-generation-inference#835 | | `inputs` must have less than
too_long | TGI | huggingface_hub#2763 | | `inputs` tokens + `max_new_tokens` must be
too_long | llama.cpp | its source | | exceeds the available context size
too_long | LM Studio | lmstudio-bug-tracker#237 | | tokens when context the overflows
too_long | LM Studio | openclaude#353 | | is greater than the context length (n_keep
too_long | LiteLLM | docs | | contextwindowexceedederror
# a reply that was written, but is not the JSON that was asked for: it is asked for again
server_error | Groq | docs | json_validate_failed
server_error | Cloudflare | docs | 5024
# a limit, in an error without the status of one
rate_limited | MiniMax | docs | 1002 | rate limit
rate_limited | Baidu | docs | 18 | qps request limit reached
rate_limited | Kong | docs | | api rate limit exceeded
# one request that is larger than all of a limit: waiting cannot help
client_error | OpenAI, Groq | vanna-flask#11 | | request too large for
# a model or server that does not do what is asked, ever, in an error of the server
client_error | llama.cpp | its source | not_supported_error
# it names max_tokens, but the thinking of one reply was longer
client_error | OpenAI | not looked up | | max_tokens or model output limit was reached
# parameters that are refused by another name than the one that is sent, or with another status than 400 or 422
refused_parameter | Google | genkit#546 | | candidatecount | n
refused_parameter | Google | js-genai#1609 | | multiple candidates is not | n
refused_parameter | Google | python-aiplatform#3743 | | only one candidate can | n
refused_parameter | vLLM | vllm#639 | | best_of must be 1 when using greedy | n
refused_parameter | Google | rig#788 | | developer instruction is not enabled | system_role
refused_parameter | chat templates of Mistral | autogen#1037 | | conversation roles must alternate user/assistant | system_role
refused_parameter | chat templates of Mistral | lmstudio-bug-tracker#1054 | | only user and assistant roles are supported | system_role
refused_parameter | chat templates of Mistral | opencode#5034 | | only user, assistant and tool roles are supported, got system | system_role
refused_parameter | chat templates of Gemma | fastmlx#22 | | system role not supported | system_role
refused_parameter | Google | reported of Vertex | | please use a valid role: user, model | system_role
refused_parameter | Google | genui#428 | | a constraint that has too many states for serving | response_format
refused_parameter | Cloudflare | docs | 5025 | | response_format
refused_parameter | Cerebras | cerebras-cloud-sdk-python#4 | wrong_api_format | type: input should be 'text' | response_format
refused_parameter | OpenAI | reported of gpt-5 | | not allowed to request logprobs | logprobs
refused_parameter | Bedrock | bedrock-access-gateway#41 | | the maximum tokens you requested exceed | max_tokens
refused_parameter | TGI | text-generation-inference#1108 | | `max_new_tokens` must be <= | max_tokens
"""  # noqa: E501  # a row a line
"""A row per error: the fields of `KnownError`, with bars between them; lines with ``#`` say what the rows below are."""


KNOWN_ERRORS = tuple(
    KnownError(*map(str.strip, line.split("|")))  # type: ignore[arg-type]  # a test checks the kinds
    for line in _TABLE.splitlines()
    if not line.startswith("#")
)
"""All of them; the first that fits counts."""
