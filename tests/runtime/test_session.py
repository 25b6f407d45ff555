"""Sessions against plain generation, one-shot tagging and the rules of each policy."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from memdecay.classifier.artifact import ClassifierArtifact
from memdecay.classifier.errors import ArtifactError, BudgetError, ConfigError
from memdecay.classifier.fingerprint import llm_fingerprint
from memdecay.classifier.llm import LanguageModel
from memdecay.classifier.regions import REGION_LABELS
from memdecay.classifier.rendering import render
from memdecay.classifier.text import NUM_TEXT_FEATURES
from memdecay.classifier.tokenization import tokenize
from memdecay.runtime.config import CacheConfig
from memdecay.runtime.hooks import ForwardStates, watch_hidden_states
from memdecay.runtime.reply_text import ReplyText
from memdecay.runtime.session import Reply, Session
from memdecay.runtime.tagger import RegionTagger
from tests.runtime.artifacts import LAYER, random_artifact
from tests.tiny import CHATML, NATIVE_TOOLS, STRICT, TRIMMING, tiny_llama, tiny_tokenizer

SYSTEM = {"role": "system", "content": "You book flights. Never pay without asking."}
TURNS = (
    [SYSTEM, {"role": "user", "content": "Find me a flight to Oslo on the 3rd of May."}],
    [{"role": "user", "content": "And the weather there?"}],
    [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "1", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
            ],
        },
        {"role": "tool", "content": "Oslo: 12 degrees, light rain", "tool_call_id": "1"},
        {"role": "user", "content": "Thanks. Book it, please."},
    ],
)
LONG = [
    SYSTEM,
    *(
        {"role": role, "content": f"{role} says number {index}: " + "words and more words. " * 3}
        for index in range(6)
        for role in ("user", "assistant")
    ),
]


def tiny_llm(template: str | None = CHATML, **config: Any) -> LanguageModel:
    """Return a tiny model that answers in digits, which every tokenizer reads back unchanged."""
    tokenizer = tiny_tokenizer(template)
    model = tiny_llama(max_position_embeddings=4096, initializer_range=0.2, **config)
    digits = tokenizer.convert_tokens_to_ids(list("0123456789"))
    weights = torch.zeros_like(model.lm_head.weight)
    weights[digits] = model.lm_head.weight[digits]
    model.lm_head.weight.data = weights
    return LanguageModel(model, tokenizer, "tiny", torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def llm() -> LanguageModel:
    return tiny_llm()


@pytest.fixture(scope="module")
def tagger(llm: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> RegionTagger:
    folder = tmp_path_factory.mktemp("session") / "classifier"
    artifact = random_artifact(folder, fingerprint=llm_fingerprint(llm.model))
    return RegionTagger(artifact, "cpu")


def config(budget_tokens: int = 64, policy: str = "memdecay", **options: Any) -> CacheConfig:
    return CacheConfig(budget_tokens, policy=policy, num_recent=12, **options)


def input_ids(llm: LanguageModel, messages: Any, *, add_generation_prompt: bool) -> Tensor:
    rendered = render(messages, llm.tokenizer, add_generation_prompt=add_generation_prompt)
    return torch.from_numpy(tokenize(rendered, llm.tokenizer).input_ids)[None]


@pytest.mark.parametrize("template", [CHATML, NATIVE_TOOLS, None], ids=["chatml", "tools", "none"])
@pytest.mark.parametrize("chunk_tokens", [7, 256])
def test_with_everything_kept_replies_are_those_of_generate(
    template: str | None, chunk_tokens: int
) -> None:
    llm = tiny_llm(template)
    session = Session(llm, config(policy="full"), chunk_tokens=chunk_tokens)
    history: list[Any] = []
    for turn in TURNS:
        reply = session.send(turn, max_new_tokens=9)
        history += turn
        ids = input_ids(llm, history, add_generation_prompt=True)
        expected = llm.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False
        )[0, ids.shape[1] :]
        assert reply.token_ids == tuple(expected.tolist())
        assert reply.num_prompt_tokens == ids.shape[1]
        assert reply.finish_reason == "length"
        history.append({"role": "assistant", "content": reply.text})
    assert session.messages == tuple(history)
    assert len({*reply.token_ids}) > 1


@pytest.mark.parametrize("policy", ["window", "streaming", "region", "memdecay"])
@pytest.mark.parametrize("is_tagged", [False, True])
def test_bytes_never_exceed_the_budget(
    llm: LanguageModel, tagger: RegionTagger, policy: str, is_tagged: bool
) -> None:
    session = Session(llm, config(48, policy), tagger if is_tagged else None)
    session.feed(LONG)
    session.reply(max_new_tokens=60)
    session.send([{"role": "user", "content": "And now?"}], max_new_tokens=5)
    stats = session.stats()
    bytes_per_token = stats.full_cache_bytes // stats.tokens_seen
    assert bytes_per_token == 4 * 2 * 2 * 8 * 4  # layers, keys and values, heads, size, float32
    assert stats.kv_bytes <= stats.peak_kv_bytes == 48 * bytes_per_token
    assert max(snapshot.kv_bytes for snapshot in stats.history) <= stats.peak_kv_bytes
    if policy != "memdecay":  # which keeps more tokens in as many bytes
        assert stats.kv_bytes == stats.peak_kv_bytes
        assert max(snapshot.tokens_kept for snapshot in stats.history) <= 48
    assert stats.tokens_seen > 48
    assert stats.saved_share == 1 - stats.kv_bytes / stats.full_cache_bytes > 0


@pytest.mark.parametrize("policy", ["full", "window", "streaming", "region", "memdecay"])
def test_kept_and_evicted_add_up_to_seen(
    llm: LanguageModel, tagger: RegionTagger, policy: str
) -> None:
    session = Session(llm, config(policy=policy), tagger)
    session.send(LONG, max_new_tokens=20)
    stats = session.stats()
    assert sum(stats.kept_per_region.values()) == stats.tokens_kept
    assert stats.tokens_kept + sum(stats.evicted_per_region.values()) == stats.tokens_seen
    assert tuple(stats.kept_per_region) == tuple(stats.evicted_per_region) == REGION_LABELS
    # The last token of a reply that was cut off has been chosen but not run.
    assert stats.tokens_seen == len(session.token_ids) - 1
    seen = [snapshot.tokens_seen for snapshot in stats.history]
    assert seen == sorted(seen)
    assert seen[-1] == stats.tokens_seen
    assert all(sum(shot.kept_per_region.values()) == shot.tokens_kept for shot in stats.history)
    assert stats.decode_ms_per_token is not None
    assert stats.decode_ms_per_token > 0
    assert (stats.tokens_kept == stats.tokens_seen) == (policy == "full")


def test_a_new_session_has_seen_nothing(llm: LanguageModel) -> None:
    stats = Session(llm, config()).stats()
    assert stats.tokens_seen == stats.kv_bytes == stats.full_cache_bytes == 0
    assert stats.decode_ms_per_token is stats.prefill_ms_per_token is None
    assert stats.history == ()


@pytest.mark.parametrize("policy", ["region", "memdecay"])
def test_the_same_conversation_gives_the_same_result(
    llm: LanguageModel, tagger: RegionTagger, policy: str
) -> None:
    def run(session: Session) -> tuple[list[Reply], Tensor]:
        replies = [session.send(turn, max_new_tokens=25) for turn in (LONG, *TURNS[1:])]
        return replies, session.cache.slots.positions

    session = Session(llm, config(policy=policy), tagger)
    replies, positions = run(session)
    other_replies, other_positions = run(Session(llm, config(policy=policy), tagger))
    assert replies == other_replies
    assert torch.equal(positions, other_positions)
    session.reset()
    assert session.messages == session.token_ids == ()
    assert run(session)[0] == replies


def test_the_window_keeps_exactly_the_newest_tokens(llm: LanguageModel) -> None:
    session = Session(llm, config(policy="window"))
    session.send(LONG, max_new_tokens=40)
    stats, positions = session.stats(), session.cache.slots.positions[0]
    newest = torch.arange(stats.tokens_seen - stats.tokens_kept, stats.tokens_seen)
    assert torch.equal(positions, newest)


def test_tags_in_the_cache_are_those_of_the_whole_conversation(
    llm: LanguageModel, tagger: RegionTagger
) -> None:
    session = Session(llm, config(96), tagger)
    forwards: list[ForwardStates] = []
    with watch_hidden_states(llm.model, session.cache, LAYER, forwards.append):
        session.send(LONG, max_new_tokens=30)
        session.send(TURNS[1], max_new_tokens=30)
    assert session.stats().tokens_kept < session.stats().tokens_seen
    hidden_states = torch.cat([states.hidden_states for states in forwards], dim=1)
    # Replies in digits come back from the tokenizer unchanged, so it knows every token's place.
    rendered = render(session.messages, llm.tokenizer)
    conversation = tokenize(rendered, llm.tokenizer)
    num_seen = hidden_states.shape[1]
    assert session.token_ids == tuple(conversation.input_ids[: num_seen + 1].tolist())
    features = conversation.position_features()
    # What is known of a reply's text while it is written is less than in hindsight.
    for message in (rendered.messages[len(LONG)], rendered.messages[-1]):
        starts = conversation.offsets[:, 0]
        first, end = np.searchsorted(starts, (message.content_start, message.content_end))
        reply = ReplyText(llm.tokenizer)
        ids = conversation.input_ids[first:end].tolist()
        for place in range(len(ids)):
            row = reply.newest(session.messages[: message.index], ids[: place + 1])
            features[first + place, -NUM_TEXT_FEATURES:] = row
    features = torch.from_numpy(features[None, :num_seen])
    tags = tagger.tag(hidden_states, features)
    slots = session.cache.slots
    expected = tags.importance.gather(1, slots.positions)
    assert_close(slots.importance, expected, atol=1e-3, rtol=1e-4)
    regions = tags.region_probs.argmax(dim=-1).gather(1, slots.positions)
    assert torch.equal(slots.regions, regions)
    assert len(slots.regions.unique()) > 1


def test_logits_of_every_position_are_those_of_one_forward(llm: LanguageModel) -> None:
    session = Session(llm, config(policy="full"), chunk_tokens=17)
    seen: list[tuple[int, Tensor]] = []
    session.feed(LONG[:4], on_logits=lambda start, logits: seen.append((start, logits)))
    session.feed(LONG[4:6], on_logits=lambda start, logits: seen.append((start, logits)))
    ids = input_ids(llm, LONG[:6], add_generation_prompt=False)
    with torch.no_grad():
        expected = llm.model(input_ids=ids).logits[0]
    assert [start for start, _ in seen][:3] == [0, 17, 34]
    assert_close(torch.cat([logits for _, logits in seen]), expected, atol=1e-4, rtol=1e-4)


def test_logits_are_told_of_chunks_that_hold_wanted_positions(llm: LanguageModel) -> None:
    everywhere, some = (Session(llm, config(policy="full"), chunk_tokens=17) for _ in range(2))
    told: dict[bool, dict[int, Tensor]] = {False: {}, True: {}}
    everywhere.feed(LONG[:4], on_logits=told[False].__setitem__)
    some.feed(LONG[:4], on_logits=told[True].__setitem__, logits_at=np.array([18, 33, 51]))
    assert list(told[True]) == [17, 51]
    for start, logits in told[True].items():
        assert_close(logits, told[False][start])
    assert some.reply(4) == everywhere.reply(4)


def test_feeding_at_once_or_bit_by_bit_is_the_same(llm: LanguageModel) -> None:
    at_once, bit_by_bit = (Session(llm, config(policy="full")) for _ in range(2))
    at_once.feed(LONG)
    for message in LONG:
        bit_by_bit.feed([message])
    assert at_once.token_ids == bit_by_bit.token_ids
    assert at_once.reply(8) == bit_by_bit.reply(8)


def stop_at(llm: LanguageModel, token_id: int) -> LanguageModel:
    """Return the model with this token as the one that ends an answer."""
    tokenizer = tiny_tokenizer(llm.tokenizer.chat_template)
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(token_id)
    return LanguageModel(llm.model, tokenizer, llm.name, llm.device, llm.dtype)


def test_a_reply_ends_at_the_stop_token_and_the_next_turn_follows_it(llm: LanguageModel) -> None:
    free = Session(llm, config(policy="full")).send(TURNS[0], max_new_tokens=12)
    # The first token that is not the first of the answer again.
    stop_id = next(id_ for id_ in free.token_ids if id_ != free.token_ids[0])
    num_before = free.token_ids.index(stop_id)
    session = Session(stop_at(llm, stop_id), config(policy="full"))
    reply = session.send(TURNS[0], max_new_tokens=12)
    assert reply.finish_reason == "stop"
    assert reply.token_ids == free.token_ids[:num_before]
    assert session.stats().tokens_seen == len(session.token_ids)
    session.prefill(TURNS[1])
    expected = input_ids(llm, session.messages, add_generation_prompt=False)
    assert session.token_ids == tuple(expected[0].tolist())


def test_streamed_text_adds_up_to_the_reply(llm: LanguageModel) -> None:
    pieces: list[str] = []
    reply = Session(llm, config()).send(TURNS[0], max_new_tokens=12, on_text=pieces.append)
    assert "".join(pieces) == reply.text
    assert len(pieces) == 12


def test_draws_follow_the_seed(llm: LanguageModel) -> None:
    def draw(seed: int) -> Reply:
        session = Session(llm, config(policy="full"))
        return session.send(TURNS[0], max_new_tokens=12, temperature=5.0, top_p=0.9, seed=seed)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize("template", [TRIMMING, STRICT], ids=["trimming", "strict"])
def test_templates_that_change_what_was_said_are_followed(template: str) -> None:
    """The strict one refuses the third turn: all is rendered neutrally from there on."""
    llm = tiny_llm(template)
    session = Session(llm, config(policy="full"))
    session.send([{"role": "user", "content": "  Hello there  "}], max_new_tokens=5)
    session.send([{"role": "user", "content": "Go on"}], max_new_tokens=5)
    session.prefill([{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}])
    expected = input_ids(llm, session.messages, add_generation_prompt=False)
    assert session.token_ids == tuple(expected[0].tolist())
    reply = session.reply(6)
    ids = input_ids(llm, session.messages[:-1], add_generation_prompt=True)
    stock = llm.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False
    )
    assert reply.token_ids == tuple(stock[0, ids.shape[1] :].tolist())


def test_a_changed_past_that_was_evicted_is_read_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    llm = tiny_llm(STRICT)
    user, assistant = ({"role": role, "content": "words " * 20} for role in ("user", "assistant"))
    session = Session(llm, config())
    session.feed([user, assistant, user, assistant])
    assert session.stats().tokens_kept < session.stats().tokens_seen
    with caplog.at_level(logging.WARNING):
        session.feed([assistant])
    assert "all of it is read again" in caplog.text
    fresh = Session(llm, config())
    fresh.feed([user, assistant, user, assistant, assistant])
    assert session.token_ids == fresh.token_ids
    assert session.stats().tokens_seen == len(session.token_ids)
    assert session.reply(5) == fresh.reply(5)


def test_a_reply_cut_short_by_its_listener_leaves_a_session_that_goes_on(
    llm: LanguageModel,
) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    session, undisturbed = (Session(llm, config(policy="full")) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        session.send(TURNS[0], max_new_tokens=12, on_text=interrupt)
    assert session.messages == tuple(TURNS[0])
    assert session.reply(12) == undisturbed.send(TURNS[0], max_new_tokens=12)


def test_the_model_is_as_before_between_turns(llm: LanguageModel, tagger: RegionTagger) -> None:
    attention = llm.model.config._attn_implementation
    Session(llm, config(), tagger).send(LONG, max_new_tokens=3)
    assert llm.model.config._attn_implementation == attention
    for module in llm.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_growing_past_the_context_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    llm = tiny_llm()
    llm.model.config.max_position_embeddings = 100
    session = Session(llm, config())
    with caplog.at_level(logging.WARNING):
        session.feed(LONG)
        session.reply(5)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "past the 100 tokens that tiny was made for" in caplog.text


def test_a_budget_below_the_protected_tokens_is_refused(llm: LanguageModel) -> None:
    with pytest.raises(BudgetError, match="a budget of 16 tokens"):
        Session(llm, config(16))


def test_an_unknown_policy_is_refused(llm: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="unknown policy 'lru'"):
        Session(llm, config(policy="lru"))


def test_a_classifier_of_another_model_is_refused(
    llm: LanguageModel, artifact: ClassifierArtifact
) -> None:
    with pytest.raises(ArtifactError, match="tiny is another model"):
        Session(llm, config(), RegionTagger(artifact, "cpu"))


def test_no_messages_are_refused(llm: LanguageModel) -> None:
    session = Session(llm, config())
    for method in (session.prefill, session.feed, session.send):
        with pytest.raises(ValueError, match="at least one message, got none"):
            method([])
    with pytest.raises(ValueError, match="no message to answer"):
        session.reply()


def test_text_in_place_of_messages_is_refused(llm: LanguageModel) -> None:
    with pytest.raises(TypeError, match="messages as mappings with role and content, got str"):
        Session(llm, config()).prefill("hello")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_a_reply_option_out_of_range_is_refused(
    llm: LanguageModel, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=f"{named} must"):
        Session(llm, config()).send(TURNS[0], **options)


def test_a_chunk_without_tokens_is_refused(llm: LanguageModel) -> None:
    with pytest.raises(ValueError, match="chunk_tokens must be 1 or more"):
        Session(llm, config(), chunk_tokens=0)
