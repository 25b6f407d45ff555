"""How new renderings continue the tokens of a conversation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdecay.classifier.features import role_code
from memdecay.classifier.rendering import RenderedConversation, render
from memdecay.classifier.tokenization import TokenizedConversation, tokenize
from memdecay.runtime.transcript import TokenTable, Transcript
from tests.tiny import CHATML, TRIMMING, tiny_tokenizer

USER = {"role": "user", "content": "Where is my order?"}
NEXT = {"role": "user", "content": "Thanks, and the other one?"}


def rendered(
    messages: list[Any], template: str = CHATML, *, prompt: bool = False
) -> tuple[str, TokenizedConversation]:
    tokenizer = tiny_tokenizer(template)
    conversation = render(messages, tokenizer, add_generation_prompt=prompt)
    return conversation.text, tokenize(conversation, tokenizer)


def asked(template: str = CHATML) -> Transcript:
    transcript, _ = Transcript.empty().update(*rendered([USER], template, prompt=True))
    return transcript


def answered(text: str, ids: list[int], template: str = CHATML) -> Transcript:
    transcript = asked(template)
    return transcript.with_reply(transcript.reply_tokens(ids, 1, "assistant"), text)


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_the_first_rendering_is_taken_whole() -> None:
    text, conversation = rendered([USER])
    transcript, num_same = Transcript.empty().update(text, conversation)
    assert num_same == 0
    assert np.array_equal(transcript.tokens.input_ids, conversation.input_ids)
    assert np.array_equal(transcript.tokens.position_features(0), conversation.position_features())


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(max_size=12), min_size=2, max_size=5), st.integers(1, 4))
def test_appended_messages_leave_the_past_alone(contents: list[str], num_first: int) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    transcript, _ = Transcript.empty().update(*rendered(messages[:num_first]))
    text, conversation = rendered(messages)
    longer, num_same = transcript.update(text, conversation)
    assert num_same == len(transcript.tokens)
    assert np.array_equal(longer.tokens.input_ids, conversation.input_ids)
    assert np.array_equal(longer.tokens.position_features(0), conversation.position_features())


def test_a_reply_keeps_the_tokens_that_were_chosen() -> None:
    """They are not what the tokenizer makes of the text."""
    transcript = answered("the tool", [300, 301, 302])
    longer, num_same = transcript.update(*rendered([USER, assistant("the tool"), NEXT]))
    assert num_same == len(transcript.tokens)
    start = len(asked().tokens)
    assert longer.tokens.input_ids[start : start + 3].tolist() == [300, 301, 302]
    tokenizer = tiny_tokenizer()
    assert longer.tokens.input_ids[start + 3] == tokenizer.convert_tokens_to_ids("<|im_end|>")


def test_reply_tokens_go_on_in_the_message_of_the_generation_prompt() -> None:
    transcript = asked()
    tokens = transcript.reply_tokens([5, 6], 1, "assistant")
    num_head = int((transcript.tokens.message_index == 1).sum())
    assert num_head > 0
    assert tokens.message_index.tolist() == [1, 1]
    assert tokens.position_in_message.tolist() == [num_head, num_head + 1]
    assert tokens.role.tolist() == [role_code("assistant")] * 2


def test_reply_tokens_without_a_generation_prompt_begin_a_message() -> None:
    transcript, _ = Transcript.empty().update(*rendered([USER]))
    tokens = transcript.reply_tokens([5, 6], 1, "assistant")
    assert tokens.position_in_message.tolist() == [0, 1]


def test_white_space_that_a_template_trims_off_a_reply_makes_no_difference() -> None:
    transcript = answered(" the tool \n", [300, 301, 302], TRIMMING)
    text, conversation = rendered([USER, assistant(" the tool \n"), NEXT], TRIMMING)
    longer, num_same = transcript.update(text, conversation)
    assert num_same == len(transcript.tokens)
    assert longer.tokens.input_ids[num_same - 3 : num_same].tolist() == [300, 301, 302]


def test_white_space_that_a_template_puts_around_a_reply_makes_no_difference() -> None:
    """As templates do before calls of tools."""
    spaced = "'\n ' + message['content'] + ' \n' if message['role'] == 'assistant'"
    template = CHATML.replace("+ message['content'] +", f"+ ({spaced} else message['content']) +")
    transcript = answered("the tool", [300, 301, 302], template)
    text, conversation = rendered([USER, assistant("the tool"), NEXT], template)
    assert "\n the tool \n" in text
    longer, num_same = transcript.update(text, conversation)
    assert num_same == len(transcript.tokens)
    rest = conversation.input_ids[len(conversation.input_ids) - (len(longer.tokens) - num_same) :]
    assert np.array_equal(longer.tokens.input_ids[num_same:], rest)
    assert tiny_tokenizer().decode(rest.tolist()).startswith(" \n<|im_end|>")


@pytest.mark.parametrize("second", ["Once the tool", "Once  the tool"])
def test_white_space_of_a_raw_prompt_counts(second: str) -> None:
    tokenizer = tiny_tokenizer()

    def raw(text: str) -> tuple[str, TokenizedConversation]:
        return text, tokenize(RenderedConversation(text, ()), tokenizer)

    transcript, _ = Transcript.empty().update(*raw("Once"))
    transcript = transcript.with_reply(transcript.reply_tokens([300, 301], -1, ""), "  the tool ")
    text, conversation = raw(second)
    longer, num_same = transcript.update(text, conversation)
    assert num_same < len(transcript.tokens)
    assert np.array_equal(longer.tokens.input_ids, conversation.input_ids)


@pytest.mark.parametrize("text", ["a tool", "the"])
def test_another_reply_is_another_one_whatever_the_white_space(text: str) -> None:
    transcript = answered(" the tool ", [300, 301, 302])
    longer, num_same = transcript.update(*rendered([USER, assistant(f"  {text}"), NEXT]))
    assert num_same < len(transcript.tokens)
    assert np.array_equal(
        longer.tokens.input_ids, rendered([USER, assistant(f"  {text}"), NEXT])[1].input_ids
    )


def test_a_changed_past_counts_from_the_first_token_that_differs() -> None:
    transcript, _ = Transcript.empty().update(*rendered([USER, NEXT]))
    text, conversation = rendered([USER, {"role": "user", "content": "Thanks, but no"}])
    changed, num_same = transcript.update(text, conversation)
    assert np.array_equal(changed.tokens.input_ids, conversation.input_ids)
    assert 0 < num_same < len(transcript.tokens)
    old, new = transcript.tokens.input_ids, conversation.input_ids
    assert np.array_equal(old[:num_same], new[:num_same])
    assert old[num_same] != new[num_same]


def test_a_shorter_past_is_cut() -> None:
    transcript, _ = Transcript.empty().update(*rendered([USER, NEXT]))
    shorter, num_same = transcript.update(*rendered([USER]))
    assert num_same == len(shorter.tokens) < len(transcript.tokens)


def test_a_token_across_the_seam_is_made_anew() -> None:
    """Without a control token between them, old and new text may share a token."""
    tokenizer = tiny_tokenizer()

    def plain(text: str) -> tuple[str, TokenizedConversation]:
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = np.array(encoding["input_ids"])
        zeros = np.zeros(ids.size, np.int32)
        return text, TokenizedConversation(
            ids,
            np.array(encoding["offset_mapping"]),
            zeros > 0,
            zeros,
            zeros,
            zeros.astype(np.int8),
        )

    transcript, _ = Transcript.empty().update(*plain("run the to"))
    text, conversation = plain("run the tool")
    longer, num_same = transcript.update(text, conversation)
    assert num_same < len(transcript.tokens)
    assert np.array_equal(longer.tokens.input_ids, conversation.input_ids)


def test_parts_put_together_again_are_the_whole() -> None:
    table = TokenTable.of(rendered([USER, NEXT])[1])
    again = table.part(0, 7).followed_by(table.part(7, len(table)))
    assert np.array_equal(again.position_features(0), table.position_features(0))
    assert np.array_equal(table.part(7, 12).position_features(7), table.position_features(0)[7:12])


def test_an_empty_table_has_no_tokens() -> None:
    assert len(TokenTable.empty()) == 0
    assert TokenTable.empty().position_features(0).shape[0] == 0


@pytest.mark.parametrize("text", ["", "the tool"])
def test_an_empty_or_stopped_reply_is_followed_by_its_end(text: str) -> None:
    ids = [300] if text else []
    transcript = answered(text, ids)
    longer, num_same = transcript.update(*rendered([USER, assistant(text)]))
    assert num_same == len(transcript.tokens)
    assert len(longer.tokens) > num_same
