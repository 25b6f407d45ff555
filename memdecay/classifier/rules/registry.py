"""All rules, in one list."""

from __future__ import annotations

from memdecay.classifier.rules import (
    calls,
    examples,
    records,
    replies,
    results,
    reuse,
    roles,
    scaffold,
    status,
    thoughts,
    values,
    verdicts,
)
from memdecay.classifier.rules.rule import Rule

DEFAULT_RULES: tuple[Rule, ...] = (
    Rule("role_default", "who speaks", roles.role_default),
    Rule(
        "standing_instructions",
        "system messages, statements of a task",
        roles.standing_instructions,
    ),
    Rule("worked_examples", "demonstrations inside instructions", examples.worked_examples, 2.0),
    Rule("example_turns", "demonstrations as turns", examples.example_turns, 2.0),
    Rule("text_calls", "calls written as text", calls.text_calls),
    Rule("code_bodies", "code that the agent writes", calls.code_bodies),
    Rule("final_answers", "answers marked as final", calls.final_answers),
    Rule("thoughts", "prose around calls", thoughts.thoughts),
    Rule("decision_words", "words that choose or conclude", thoughts.decision_words),
    Rule("retelling", "long thoughts that retell", thoughts.retelling),
    Rule("quoted_data", "stack frames and records in an agent's words", thoughts.quoted_data),
    Rule("user_facts", "ids, confirmations, preferences of a user", replies.user_facts),
    Rule("user_talk", "questions and thanks of a user", replies.user_talk),
    Rule("agent_replies", "answers without a call", replies.agent_replies),
    Rule("agent_proposals", "details put up for confirmation", replies.agent_proposals),
    Rule("closing_words", "words to the user after a call", replies.closing_words),
    Rule("short_results", "short results as a whole", results.short_results),
    Rule("result_bulk", "long results", results.result_bulk),
    Rule("records", "records in JSON", records.records),
    Rule("result_heads", "how long results begin", results.result_heads),
    Rule("asked_terms", "pieces with the call's own words", results.asked_terms),
    Rule("logged_results", "results inside an agent's log", results.logged_results),
    Rule("status_lines", "status and exit codes", status.status_lines),
    Rule("error_lines", "error messages", status.error_lines),
    Rule("stack_frames", "stack frames", status.stack_frames),
    Rule("boilerplate", "prompts, counters, control tokens", scaffold.boilerplate, 2.0),
    Rule("blobs", "encoded data, dumps of empty fields", scaffold.blobs),
    Rule("preamble", "tool output before anybody spoke", scaffold.preamble),
    Rule("verdicts", "verdicts, reflections, answers to prompts", verdicts.verdicts),
    Rule("echoed_records", "records that a change returns", records.echoed_records),
    Rule("state_rules", "what a scaffold demands now", scaffold.state_rules),
    Rule("profiles", "records of a person", records.profiles),
    Rule("unbroken_values", "results of few, very long words", values.unbroken_values),
    Rule("computed_values", "what commands compute", values.computed_values),
    Rule("reused_values", "values that later calls quote", reuse.reused_values),
)
"""Tried in this order; the order has no bearing on the outcome."""
