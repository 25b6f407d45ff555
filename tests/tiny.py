"""Tiny random models and tokenizers, built in memory: no network, no files, fixed seeds."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from memdecay.classifier.llm import LanguageModel
from memdecay.runtime.foresight.head import ForesightHead

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Takes any role, never trims, inserts a system prompt where there is none, knows no tool calls."""

STRICT = (
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + '<|im_end|>' }}{% endif %}"
    "{% endfor %}"
)
"""Takes user and assistant in turns only and raises on any other order."""

TRIMMING = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Strips white space around every content."""

NATIVE_TOOLS = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['content'] %}{{ message['content'] }}{% endif %}"
    "{% for call in message['tool_calls'] or [] %}"
    "{{ '\n<tool_call>\n' + (call['function'] | tojson) + '\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Writes structured tool calls itself."""

_CORPUS = (
    "The agent reads the file and runs the tests; the tool answers with the result of the call.",
    "I will book the flight for the user because the user has confirmed it. What is the weather?",
    'system user assistant tool {"name": "search", "arguments": {"query": "order status"}}',
    "def main(path: str) -> None:\n    return open(path).read()\n\nError: no such file",
)


@cache
def _trained_bpe(vocab_size: int) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS * 4, trainer)
    return str(tokenizer.to_str())


def tiny_tokenizer(
    template: str | None = CHATML, *, vocab_size: int = 384
) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer of at most ``vocab_size`` tokens with a chat template."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained_bpe(vocab_size)),
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_llama(
    *,
    hidden_size: int = 32,
    num_layers: int = 4,
    num_heads: int = 4,
    num_key_value_heads: int = 2,
    vocab_size: int = 384,
    max_position_embeddings: int = 512,
    seed: int = 0,
    **config: Any,
) -> LlamaForCausalLM:
    """Return a random Llama in float32 and eval mode; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocab_size,
                hidden_size=hidden_size,
                intermediate_size=2 * hidden_size,
                num_hidden_layers=num_layers,
                num_attention_heads=num_heads,
                num_key_value_heads=num_key_value_heads,
                max_position_embeddings=max_position_embeddings,
                bos_token_id=1,
                eos_token_id=2,
                pad_token_id=2,
                **config,
            )
        )
    return model.eval().requires_grad_(False)


def tiny_language_model(
    template: str | None = CHATML, *, name: str = "tiny", **model: Any
) -> LanguageModel:
    """Return a tiny random Llama with its tokenizer, on the CPU in float32."""
    return LanguageModel(
        model=tiny_llama(**model),
        tokenizer=tiny_tokenizer(template),
        name=name,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


def tiny_head(num_norms: int, *, model: str = "tiny") -> ForesightHead:
    """Return a foresight head whose weights take turns in sign."""
    return ForesightHead(
        model,
        mean=(0.0,) * num_norms,
        scale=(1.0,) * num_norms,
        weights=tuple(0.3 * (-1) ** index for index in range(num_norms)),
        attention_weight=0.5,
    )
