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
    provider
        Who sends it; it may come through a router or a proxy.
    kind
        What it is; ``client_error``: the user's to correct.
    source
        Where it is documented, or was reported: a repository and number, or ``docs``, the provider's documentation.
    code
        A value of its fields ``code``, ``type``, ``status`` or ``reason``, in small letters; blank: any.
    text
        A fragment of its message, in small letters; blank: any. With a code, both are needed.
    parameter
        The parameter that it refuses (``refused_parameter``).
    """

    provider: str
    kind: ProblemKind
    source: str
    code: str = ""
    text: str = ""
    parameter: str = ""


KNOWN_ERRORS = (
    # no credit: by code
    KnownError("OpenAI", "quota", "docs", "insufficient_quota"),
    KnownError("OpenAI", "quota", "docs", "credit_balance_exhausted"),
    KnownError("OpenAI", "quota", "docs", "organization_spend_limit_exceeded"),
    KnownError("OpenAI", "quota", "docs", "project_spend_limit_exceeded"),
    KnownError("OpenAI", "quota", "docs", "organization_usage_limit_exceeded"),
    KnownError("OpenAI", "quota", "docs", "billing_hard_limit_reached"),
    KnownError("OpenAI", "quota", "docs", "billing_not_active"),
    KnownError("Anthropic", "quota", "docs", "billing_error"),
    KnownError("Alibaba", "quota", "docs", "arrearage"),
    KnownError("Moonshot", "quota", "docs", "exceeded_current_quota_error"),
    KnownError("Zhipu", "quota", "docs", "1113"),
    KnownError("MiniMax", "quota", "modelscope#1691", "insufficient_balance_error"),
    KnownError("MiniMax", "quota", "docs", "1008", "insufficient balance"),
    KnownError("Cloudflare", "quota", "docs", "3036"),
    KnownError("Novita", "quota", "docs", "not_enough_balance"),
    KnownError("One API", "quota", "its source", "insufficient_user_quota"),
    KnownError("LiteLLM's proxy", "quota", "docs", "budget_exceeded"),
    # no credit: by text
    KnownError("OpenAI", "quota", "LimSim#25", text="read the docs: https://platform.openai.com/docs/guides/error-codes"),
    KnownError("Anthropic", "quota", "claude-code#66314", text="your credit balance is too low"),
    KnownError("Anthropic", "quota", "claude-code#2127", text="you have reached your specified api usage limits"),
    KnownError("xAI", "quota", "continue#10373", text="used all available credits or reached its monthly"),
    KnownError("xAI", "quota", "not looked up", text="newly created team doesn't have any credits yet"),
    KnownError("OpenRouter", "quota", "gptme#1449", text="key limit exceeded"),
    KnownError("Google", "quota", "roni#125", text="prepayment credits are depleted"),
    KnownError("Fireworks", "quota", "pollinations#12136", text="possibly due to reaching the monthly spending limit"),
    KnownError("MiniMax", "quota", "MiniMax-M2#62", text="insufficient balance (1008)"),
    KnownError("LiteLLM's proxy", "quota", "its source", text="budget has been exceeded! current cost"),
    KnownError("LiteLLM's proxy", "quota", "its source", text="exceededbudget:"),
    KnownError("LiteLLM's proxy", "quota", "its source", text="max budget limit reached"),
    KnownError("Cloudflare", "quota", "docs", text="used up your daily free allocation of"),
    # keys
    KnownError("OpenAI", "auth", "docs", "invalid_api_key"),
    KnownError("Google", "auth", "docs", "api_key_invalid"),
    KnownError("MiniMax", "auth", "docs", "2049", "invalid api key"),
    KnownError("xAI", "auth", "continue#10778", text="incorrect api key provided"),
    KnownError("Google", "auth", "gemini-cli#4690", text="api key not valid. please pass a valid api key"),
    KnownError("Google", "auth", "continue#11336", text="api key expired. please renew the api key"),
    KnownError("Anthropic", "auth", "claude-code#19028", text="this organization has been disabled"),
    # one prompt that a filter refuses
    KnownError("OpenAI, Azure, Moonshot", "content_filter", "docs", "content_filter"),
    KnownError("Azure", "content_filter", "docs", "responsibleaipolicyviolation"),
    KnownError("OpenAI", "content_filter", "docs", "content_policy_violation"),
    KnownError("OpenAI", "content_filter", "docs", "invalid_prompt"),
    KnownError("Alibaba", "content_filter", "docs", "data_inspection_failed"),
    KnownError("Alibaba", "content_filter", "Qwen#938", "datainspectionfailed"),
    KnownError("Zhipu", "content_filter", "docs", "1301"),
    KnownError("Cloudflare", "content_filter", "docs", "2016", "prompt blocked"),
    KnownError("Azure", "content_filter", "ragas#649", text="content management policy"),
    KnownError("LiteLLM", "content_filter", "docs", text="contentpolicyviolationerror"),
    KnownError("OpenRouter", "content_filter", "docs", text="requires moderation on"),
    KnownError("DeepSeek", "content_filter", "DeepSeek-V2#30", text="content exists risk"),
    KnownError("MiniMax", "content_filter", "docs", text="new_sensitive"),
    # a prompt that is too long
    KnownError("OpenAI", "too_long", "docs", "context_length_exceeded"),
    KnownError("llama.cpp", "too_long", "its source", "exceed_context_size_error"),
    KnownError("TypeSafe", "too_long", "promptfoo's provider", text="max_tokens_exceeded"),
    KnownError("Zhipu", "too_long", "docs", "1261"),
    KnownError("OpenAI, vLLM, Mistral", "too_long", "vllm#20409", text="maximum context length"),
    KnownError("vLLM", "too_long", "Empryo#52", text="the model's context length is only"),
    KnownError("vLLM", "too_long", "its source", text="longer than the maximum model length"),
    KnownError("SGLang", "too_long", "its source", text="longer than the model's context length"),
    KnownError("OpenAI", "too_long", "not looked up", text="exceeds the context window of this model"),
    KnownError("OpenAI", "too_long", "cline#5474", text="input tokens exceed the configured limit"),
    KnownError("Google", "too_long", "gemini-cli#4231", text="exceeds the maximum number of tokens allowed"),
    KnownError("Anthropic", "too_long", "claude-code#12186", text="prompt is too long"),
    KnownError("Anthropic", "too_long", "continue#6080", text="exceed context limit"),
    KnownError("Bedrock", "too_long", "not looked up", text="input is too long for requested model"),
    KnownError("SiliconFlow", "too_long", "cursor-byok#129", text="has exceeded max_prompt_tokens"),
    KnownError("Alibaba", "too_long", "qwen-code#98", text="range of input length should be"),
    KnownError("Moonshot", "too_long", "docs", text="request exceeded model token limit"),
    KnownError("Moonshot", "too_long", "docs", text="input token length too long"),
    KnownError("Cohere", "too_long", "sandbox-topically#4", text="too many tokens: total number of tokens"),
    KnownError("OpenAI, Groq", "too_long", "llm#392", text="please reduce the length of the messages"),
    KnownError("TGI", "too_long", "text-generation-inference#835", text="`inputs` must have less than"),
    KnownError("TGI", "too_long", "huggingface_hub#2763", text="`inputs` tokens + `max_new_tokens` must be"),
    KnownError("llama.cpp", "too_long", "its source", text="exceeds the available context size"),
    KnownError("LM Studio", "too_long", "lmstudio-bug-tracker#237", text="tokens when context the overflows"),
    KnownError("LM Studio", "too_long", "openclaude#353", text="is greater than the context length (n_keep"),
    KnownError("LiteLLM", "too_long", "docs", text="contextwindowexceedederror"),
    # a reply that was written, but is not the JSON that was asked for: it is asked for again
    KnownError("Groq", "server_error", "docs", "json_validate_failed"),
    KnownError("Cloudflare", "server_error", "docs", "5024"),
    # a limit, in an error without the status of one
    KnownError("MiniMax", "rate_limited", "docs", "1002", "rate limit"),
    KnownError("Baidu", "rate_limited", "docs", "18", "qps request limit reached"),
    KnownError("Kong", "rate_limited", "docs", text="api rate limit exceeded"),
    # one request that is larger than all of a limit: waiting cannot help
    KnownError("OpenAI, Groq", "client_error", "vanna-flask#11", text="request too large for"),
    # a model or server that does not do what is asked, ever, in an error of the server
    KnownError("llama.cpp", "client_error", "its source", "not_supported_error"),
    # it names max_tokens, but the thinking of one reply was longer
    KnownError("OpenAI", "client_error", "not looked up", text="max_tokens or model output limit was reached"),
    # parameters that are refused by another name than the one that is sent, or with another status than 400 or 422
    KnownError("Google", "refused_parameter", "genkit#546", text="candidatecount", parameter="n"),
    KnownError("Google", "refused_parameter", "js-genai#1609", text="multiple candidates is not", parameter="n"),
    KnownError("Google", "refused_parameter", "python-aiplatform#3743", text="only one candidate can", parameter="n"),
    KnownError("vLLM", "refused_parameter", "vllm#639", text="best_of must be 1 when using greedy", parameter="n"),
    KnownError("Google", "refused_parameter", "rig#788", text="developer instruction is not enabled",
               parameter="system_role"),
    KnownError("chat templates of Mistral", "refused_parameter", "autogen#1037",
               text="conversation roles must alternate user/assistant", parameter="system_role"),
    KnownError("chat templates of Mistral", "refused_parameter", "lmstudio-bug-tracker#1054",
               text="only user and assistant roles are supported", parameter="system_role"),
    KnownError("chat templates of Mistral", "refused_parameter", "opencode#5034",
               text="only user, assistant and tool roles are supported, got system", parameter="system_role"),
    KnownError("chat templates of Gemma", "refused_parameter", "fastmlx#22", text="system role not supported",
               parameter="system_role"),
    KnownError("Google", "refused_parameter", "reported of Vertex", text="please use a valid role: user, model",
               parameter="system_role"),
    KnownError("Google", "refused_parameter", "genui#428", text="a constraint that has too many states for serving",
               parameter="response_format"),
    KnownError("Cloudflare", "refused_parameter", "docs", "5025", parameter="response_format"),
    KnownError("Cerebras", "refused_parameter", "cerebras-cloud-sdk-python#4", "wrong_api_format",
               "type: input should be 'text'", parameter="response_format"),
    KnownError("OpenAI", "refused_parameter", "reported of gpt-5", text="not allowed to request logprobs",
               parameter="logprobs"),
    KnownError("Bedrock", "refused_parameter", "bedrock-access-gateway#41",
               text="the maximum tokens you requested exceed", parameter="max_tokens"),
    KnownError("TGI", "refused_parameter", "text-generation-inference#1108", text="`max_new_tokens` must be <=",
               parameter="max_tokens"),
)  # fmt: skip
"""All of them; the first that fits counts."""
