"""The vendors we know, a row each: where they are, what they speak, which variable holds the key.

Capabilities and limits are those that the vendor documents for all that it serves. Where models
differ, and they mostly do, the field is left out and `HttpProvider.models` or `describe` may tell.
Thinking is another matter: a row says whether the protocol, as the vendor serves it, has a place
for thoughts. OpenAI and xAI hand them out in responses, and not in chat completions.
"""

from __future__ import annotations

from typing import Final

from steno.providers.vendor import Auth, Capabilities, Vendor

_HOSTED: Final = Capabilities(tools=True, thinking=True)
_THINKING: Final = Capabilities(thinking=True)

CATALOG: Final = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            name="openai",
            title="OpenAI (chat completions)",
            wire="openai_chat",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, thinking=False, strict=True),
        ),
        Vendor(
            name="openai-responses",
            title="OpenAI (responses)",
            wire="openai_responses",
            base_url="https://api.openai.com/v1",
            provider="openai",
            key_variables=("OPENAI_API_KEY",),
            # A prompt that is kept there may name the model.
            capabilities=Capabilities(tools=True, thinking=True, strict=True),
        ),
        Vendor(
            name="anthropic",
            title="Anthropic",
            wire="anthropic_messages",
            base_url="https://api.anthropic.com",
            auth=Auth.X_API_KEY,
            key_variables=("ANTHROPIC_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, vision=True, thinking=True),
        ),
        Vendor(
            name="google",
            title="Google Gemini",
            wire="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            auth=Auth.X_GOOG_API_KEY,
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            needs_model=True,
            capabilities=Capabilities(tools=True, thinking=True, strict=False),
        ),
        Vendor(
            name="azure",
            title="Azure OpenAI (v1)",
            wire="openai_chat",
            base_url="",  # https://RESOURCE.openai.azure.com/openai/v1; models are deployments
            provider="openai",
            auth=Auth.API_KEY,
            key_variables=("AZURE_OPENAI_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, strict=True),
        ),
        Vendor(
            name="openrouter",
            title="OpenRouter",
            wire="openai_chat",
            base_url="https://openrouter.ai/api/v1",
            key_variables=("OPENROUTER_API_KEY",),
            # Every account has a default model.
            capabilities=_THINKING,
        ),
        Vendor(
            name="groq",
            title="Groq",
            wire="openai_chat",
            base_url="https://api.groq.com/openai/v1",
            key_variables=("GROQ_API_KEY",),
            needs_model=True,
            capabilities=_HOSTED,
        ),
        Vendor(
            name="mistral",
            title="Mistral",
            wire="openai_chat",
            base_url="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            needs_model=True,
            capabilities=_HOSTED,
        ),
        Vendor(
            name="deepseek",
            title="DeepSeek",
            wire="openai_chat",
            base_url="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            needs_model=True,
            # Flash models see images, and Pro models do not, says its price list.
            capabilities=Capabilities(tools=True, thinking=True, strict=False),
            context_tokens=1_000_000,  # of all its models, says its price list
            max_output_tokens=384_000,
        ),
        Vendor(
            name="together",
            title="Together",
            wire="openai_chat",
            base_url="https://api.together.ai/v1",
            key_variables=("TOGETHER_API_KEY",),
            needs_model=True,
            capabilities=_THINKING,
        ),
        Vendor(
            name="fireworks",
            title="Fireworks",
            wire="openai_chat",
            base_url="https://api.fireworks.ai/inference/v1",
            key_variables=("FIREWORKS_API_KEY",),
            needs_model=True,
            capabilities=_THINKING,
        ),
        Vendor(
            name="xai",
            title="xAI (chat completions)",
            wire="openai_chat",
            base_url="https://api.x.ai/v1",
            key_variables=("XAI_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, thinking=False),
        ),
        Vendor(
            name="xai-responses",
            title="xAI (responses)",
            wire="openai_responses",
            base_url="https://api.x.ai/v1",
            provider="xai",
            key_variables=("XAI_API_KEY",),
            needs_model=True,
            capabilities=_HOSTED,
        ),
        # -- servers of one's own: a key only where somebody set one -----------------------------
        Vendor(
            name="ollama",
            title="Ollama",
            wire="ollama_chat",
            base_url="http://localhost:11434",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
            hint="is it running? ollama serve",
            needs_model=True,
            capabilities=Capabilities(thinking=True, strict=False),
        ),
        Vendor(
            name="vllm",
            title="vLLM",
            wire="openai_chat",
            base_url="http://localhost:8000/v1",
            key_variables=("VLLM_API_KEY",),
            needs_key=False,
            capabilities=_THINKING,
        ),
        Vendor(
            name="lmstudio",
            title="LM Studio",
            wire="openai_chat",
            base_url="http://localhost:1234/v1",
            needs_key=False,
            capabilities=_THINKING,
        ),
        Vendor(
            name="llama.cpp",
            title="llama.cpp (chat completions)",
            wire="openai_chat",
            base_url="http://localhost:8080/v1",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            capabilities=_THINKING,
        ),
        Vendor(
            name="llama.cpp-responses",
            title="llama.cpp (responses)",
            wire="openai_responses",
            base_url="http://localhost:8080/v1",
            provider="llama.cpp",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            capabilities=_THINKING,
        ),
        Vendor(
            name="llama.cpp-messages",
            title="llama.cpp (messages)",
            wire="anthropic_messages",
            base_url="http://localhost:8080",
            provider="llama.cpp",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            capabilities=_THINKING,
        ),
    )
}
"""Every vendor by the name that `connect` takes."""
