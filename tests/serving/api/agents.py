"""Agents of other packages that ask a server for the weather."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from openai import AsyncOpenAI

SHORT_PROMPT = {"system_prompt": "You solve tasks by calling tools."}


def run_smolagents(
    url: str, model: str, question: str, prompts: dict[str, str] | None = None
) -> tuple[list[str], str]:
    """Let an agent of smolagents answer; return the tools that it called, and its answer.

    Args:
        url: The server's API.
        model: The model's name there.
        question: What it is asked.
        prompts: Stand in the place of its own, which have thousands of tokens.
    """
    smolagents: Any = pytest.importorskip("smolagents", reason="smolagents is missing")

    class Weather(smolagents.Tool):  # type: ignore[misc]
        name = "get_weather"
        description = "Tell the weather of a city"
        inputs = {"city": {"type": "string", "description": "The city"}}  # noqa: RUF012
        output_type = "string"

        def forward(self, city: str) -> str:
            return f"Sunny in {city[:10]}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = smolagents.ToolCallingAgent(tools=[], model=None).prompt_templates
        agent = smolagents.ToolCallingAgent(
            tools=[Weather()],
            model=smolagents.OpenAIModel(model, api_base=url, api_key="none"),
            max_steps=3,
            verbosity_level=0,
            prompt_templates=own | (prompts or {}),
        )
        answer = str(agent.run(question))
    called = [
        call.name for step in agent.memory.steps for call in getattr(step, "tool_calls", None) or ()
    ]
    return called, answer


def run_openai_agents(
    url: str, model: str, question: str, **settings: Any
) -> tuple[list[str], str]:
    """Let an agent of openai-agents answer; return the cities it asked for, and its answer."""
    agents: Any = pytest.importorskip("agents", reason="openai-agents is missing")
    agents.set_tracing_disabled(True)
    calls: list[str] = []

    async def run() -> str:
        @agents.function_tool
        def get_weather(city: str) -> str:
            """Tell the weather of a city."""
            calls.append(city)
            return "Sunny"

        client = AsyncOpenAI(base_url=url, api_key="none")
        agent = agents.Agent(
            name="Forecaster",
            instructions="Tell the weather.",
            model=agents.OpenAIChatCompletionsModel(model, openai_client=client),
            tools=[get_weather],
            # The choice goes back to auto behind the first call.
            model_settings=agents.ModelSettings(tool_choice="required", **settings),
        )
        result = await agents.Runner.run(agent, question)
        await client.close()
        return str(result.final_output)

    return calls, asyncio.run(run())
