"""Requests as clients of each protocol write them, with members that no wire knows."""

from __future__ import annotations

from typing import Any, Final

ANTHROPIC_MESSAGES: Final[dict[str, Any]] = {
    "model": "model-1",
    "max_tokens": 1000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                {"type": "hologram", "light": 7},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmF0dXJl"},
                {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "fs-read", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "no",
                    "is_error": True,
                },
                {"type": "text", "text": "Try another."},
            ],
        },
    ],
    "tools": [
        {
            "name": "fs-read",
            "description": "Reads a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
        {"type": "hologram_20990101", "name": "hologram"},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "temperature": 0.5,
    "stream": True,
    "metadata": {"user_id": "u"},
    "hologram": {"light": [1, None]},
}
CHAT: Final[dict[str, Any]] = {
    "model": "model-1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is this?", "hologram": 7},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "fs.read", "arguments": {"path": "a"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "no", "is_error": True},
        {"role": "assistant", "content": "It is gone."},
    ],
    "tools": [
        {
            "name": "fs.read",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
    ],
    "max_tokens": 1000,
    "temperature": 0.5,
    "hologram": {"light": [1, None]},
}
GEMINI: Final[dict[str, Any]] = {
    "model": "model-1",
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "What is this?"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                {"hologram": {"light": 7}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {
                    "functionCall": {"name": "fs.read", "args": {"path": "a"}},
                    "thoughtSignature": "c2lnbmF0dXJl",
                },
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "fs.read", "response": {"output": "one"}}}],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "fs.read",
                    "description": "Reads a file.",
                    "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}},
                }
            ]
        },
        {"hologram": {}},
    ],
    "generationConfig": {"temperature": 0.5, "maxOutputTokens": 1000, "candidateCount": 1},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "hologram": {"light": [1, None]},
}
OLLAMA_CHAT: Final[dict[str, Any]] = {
    "model": "model-1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="], "hologram": 7},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Hm.",
            "tool_calls": [{"function": {"name": "fs.read", "arguments": {"path": "a"}}}],
        },
        {"role": "tool", "tool_name": "fs.read", "content": "one"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "fs.read",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
    ],
    "options": {"temperature": 0.5, "num_predict": 1000, "num_ctx": 4096},
    "think": "high",
    "keep_alive": "5m",
    "stream": True,
    "hologram": {"light": [1, None]},
}
OPENAI_CHAT: Final[dict[str, Any]] = {
    "model": "model-1",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "What is this?"},
                {
                    "type": "image_url",
                    "image_url": {"url": "https://example.org/a.png", "detail": "low"},
                },
                {"type": "hologram", "light": 7},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "fs.read", "arguments": '{"path" : "a"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "fs.read",
                "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                "strict": True,
            },
        },
        {"type": "hologram", "light": 7},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "temperature": 0.5,
    "stream": True,
    "seed": 7,
    "hologram": {"light": [1, None]},
}
OPENAI_RESPONSES: Final[dict[str, Any]] = {
    "model": "model-1",
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
                {"type": "hologram", "light": 7},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "c2VhbA==",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "fs-read",
            "arguments": '{"path" : "a"}',
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "one"},
        {"type": "hologram", "light": 7},
    ],
    "tools": [
        {
            "type": "function",
            "name": "fs-read",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            "strict": False,
        },
        {"type": "hologram"},
    ],
    "tool_choice": "auto",
    "max_output_tokens": 1000,
    "temperature": 0.5,
    "store": False,
    "stream": True,
    "hologram": {"light": [1, None]},
}
