"""Several agents hand work over to each other: plan, evidence, remedy, review."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    dialogue,
    finding,
    instruction,
    surround,
)
from memdecay.data.generator.records import line_pieces
from memdecay.data.generator.vocabulary.guidelines import guidelines
from memdecay.data.generator.vocabulary.incidents import CAUSES, SERVICES, Cause, log_lines
from memdecay.data.generator.wording import Wording

_CASTS = (
    ("planner", "investigator", "engineer", "reviewer"),
    ("Coordinator", "LogAgent", "OpsAgent", "Critic"),
    ("lead", "analyst", "executor", "auditor"),
    ("Manager_Ada", "Scout_Ben", "Fixer_Cleo", "Judge_Dan"),
)


@dataclass(frozen=True, slots=True)
class _Incident:
    """What the team works on."""

    cause: Cause
    wrong_guess: Cause
    service: str
    ticket: str
    limit: str

    def fill(self, text: str) -> str:
        """Put the service into a text of the cause."""
        return text.replace("{service}", self.service)


def write_handover(wording: Wording, builder: TraceBuilder) -> None:
    """Write one incident, from the alarm to the closing note."""
    cause, guess = wording.rng.sample(CAUSES, 2)
    limits = (
        "no restart of the database",
        "no change that needs more than one approval",
        "keep the read path up",
        "nothing that deletes customer data",
    )
    incident = _Incident(
        cause, guess, wording.pick(SERVICES), wording.code("INC-####"), wording.pick(limits)
    )
    team = _Team(wording, builder, incident)
    team.brief()
    team.plan()
    team.investigate()
    team.repair()
    team.review()


class _Team:
    """Four agents and the way in which their chat is written down."""

    def __init__(self, wording: Wording, builder: TraceBuilder, incident: _Incident) -> None:
        self.wording, self.builder, self.incident = wording, builder, incident
        self.lead, self.scout, self.fixer, self.judge = wording.pick(_CASTS)
        self.layout = wording.pick(["names", "headers", "roles"])
        self._turn = 0

    def brief(self) -> None:
        """Write the rules of the team and the task."""
        wording, incident = self.wording, self.incident
        rules = [
            "{lead} {plans|makes the plan} and {decides|has the last word}.",
            "{scout} reads logs and metrics, {changes nothing|and never changes anything}.",
            "{fixer} runs commands {after the plan allows them|on the approved list}.",
            "{judge} checks every result {before it is closed|and says what is missing}.",
            "{Name the next speaker|Say who goes on} at the end of your turn.",
            "{Write TERMINATE when the incident is closed|The last message ends with TERMINATE}.",
        ]
        names = {"lead": self.lead, "scout": self.scout, "fixer": self.fixer, "judge": self.judge}
        text = wording(
            "{You are part of|This is} a team of agents that {handles incidents|keeps services running}.\n"
        ) + "\n".join("- " + wording(rule, **names) for rule in wording.some(rules, 4, 6))
        if wording.chance(0.8):
            text += "\n\n" + guidelines(wording, 2, 4)
        task = wording(
            "{Task|Incident} {ticket}: {service} {fails for one request in {n}|is down for some customers|answers slowly since this morning}. {Find the cause and mend it|Restore the service and say why it happened}. {Constraint|Note}: {limit}.",
            ticket=incident.ticket,
            service=incident.service,
            n=wording.number(2, 30),
            limit=incident.limit,
        )
        self.builder.add("system", instruction(text))
        self.builder.add("user", instruction(task))

    def plan(self) -> None:
        """Write the plan."""
        wording, incident = self.wording, self.incident
        steps = [
            wording(
                "{scout} {pulls|reads} the logs of {service} {of the last half hour|since the alarm}.",
                scout=self.scout,
                service=incident.service,
            ),
            wording(
                "{We {name|settle} the cause before we touch anything|No change before the cause is known}."
            ),
            wording("{fixer} applies the remedy{ and measures again|}.", fixer=self.fixer),
            wording(
                "{judge} confirms{ against the constraint: {limit}|}.",
                judge=self.judge,
                limit=incident.limit,
            ),
        ]
        plan = wording("{Plan|Here is how we go about it}:\n") + "\n".join(
            f"{i}. {step}" for i, step in enumerate(steps, 1)
        )
        if wording.chance(0.5):
            plan += wording(
                "\n{First hypothesis|I would first suspect}: {guess}.",
                guess=incident.fill(incident.wrong_guess.name),
            )
        self._say(self.lead, decision(plan + "\n"), self._pass_to(self.scout))

    def investigate(self) -> None:
        """Write the look into the logs and what it shows."""
        wording, incident = self.wording, self.incident
        if wording.chance(0.4):
            self._say(
                self.scout,
                decision("I check the dashboards first.\n"),
                finding(f"metrics --service {incident.service} --last 30m"),
            )
            rows = [
                f"{name:<22} {wording.number(0, 99)}.{wording.code('#')} {unit}"
                for name, unit in wording.some(
                    [
                        ("cpu", "%"),
                        ("memory", "%"),
                        ("requests", "1/s"),
                        ("open files", "k"),
                        ("gc time", "ms"),
                        ("threads", ""),
                        ("egress", "MB/s"),
                        ("cache hits", "%"),
                        ("cold starts", ""),
                    ],
                    5,
                    9,
                )
            ]
            place = wording.number(0, len(rows))
            rows.insert(
                place,
                f"{'errors':<22} {wording.number(3, 40)}.{wording.code('#')} %   <- above threshold",
            )
            self._result(*line_pieces(rows, {place}, has_final_newline=False))
        self._say(
            self.scout,
            decision(wording("{Now the logs|I fetch the log and look for errors}.\n")),
            finding(f"logs {incident.service} --since 30m --tail {wording.pick([100, 200, 400])}"),
        )
        lines, wanted = log_lines(wording, incident.cause, incident.service, wording.number(8, 34))
        self._result(*line_pieces(lines, wanted, has_final_newline=False))
        retold = (
            context(
                wording(
                    "{I went through the lines one by one; most are health checks and cache messages|The log is long and mostly routine}. "
                )
            )
            if wording.chance(0.6)
            else None
        )
        found = decision(
            wording(
                "{Cause|Conclusion}: {name}.{ The first hypothesis is off the table.|} {Remedy|I propose to}: {remedy}.\n",
                name=incident.fill(incident.cause.name),
                remedy=incident.cause.remedy,
            )
        )
        self._say(self.scout, *([retold] if retold else []), found, self._pass_to(self.fixer))

    def repair(self) -> None:
        """Write the command that mends it, with a failed attempt now and then."""
        wording, incident = self.wording, self.incident
        command = incident.fill(incident.cause.command)
        if wording.chance(0.35):
            self._say(self.fixer, finding(f"```sh\n{command.split(' && ')[0]}\n```"))
            self._result(
                finding(
                    wording(
                        "exitcode: 1 (execution failed)\nCode output: {permission denied: role agent-rw required|lock held by another session, try again}"
                    )
                )
            )
            self._say(
                self.fixer,
                decision(
                    wording(
                        "{I need the other role for this|The lock is gone after a minute}, so I {run it again|repeat it} {as agent-rw|with --wait}.\n"
                    )
                ),
                finding(f"```sh\n{command}\n```"),
            )
        else:
            self._say(
                self.fixer,
                decision(
                    wording(
                        "{I apply the remedy now|Applying what was proposed}; {limit} is respected.\n",
                        limit=incident.limit,
                    )
                ),
                finding(f"```sh\n{command}\n```"),
            )
        steps = "".join(
            f"[{i}/{9}] {wording.pick(['waiting for rollout', 'draining', 'syncing', 'pulling layer', 'verifying'])} {wording.code('~~~~~~')}\n"
            for i in range(1, wording.number(3, 9))
        )
        self._result(
            finding("exitcode: 0 (execution succeeded)\nCode output:\n"),
            context(steps),
            finding(incident.cause.check),
        )
        self._say(
            self.fixer,
            dialogue(wording("{Done on my side|That went through}. ")),
            self._pass_to(self.judge),
        )

    def review(self) -> None:
        """Write the review and the closing note."""
        wording, incident = self.wording, self.incident
        praise = dialogue(wording("{Good work, everyone.|Clean and quick, thank you.|Well done.} "))
        if wording.chance(0.4):
            gap = wording(
                "{One thing is missing|Not yet closed}: {an alert that would have shown this earlier|the post-mortem does not name the constraint ({limit})}. {fixer} {adds it|has to add it} before we close.\n",
                limit=incident.limit,
                fixer=self.fixer,
            )
            self._say(self.judge, praise, decision(gap), self._pass_to(self.fixer))
            self._say(
                self.fixer,
                finding(
                    f"alerts add --service {incident.service} --from-incident {incident.ticket}"
                ),
            )
            self._result(finding(wording("alert {id} created", id=wording.code("al-###"))))
        verdict = decision(
            wording(
                "{Verdict|Review}: {check}. {The constraint was kept: {limit}|Nothing else has changed}. {ticket} can be closed.\n",
                check=incident.cause.check,
                limit=incident.limit,
                ticket=incident.ticket,
            )
        )
        self._say(self.judge, praise, verdict, self._pass_to(self.lead))
        final = decision(
            wording(
                "{Final report|Summary for the record} {ticket}: {name}; {we|the team} did the following: {remedy}.\n",
                ticket=incident.ticket,
                name=incident.fill(incident.cause.name),
                remedy=incident.cause.remedy,
            )
        )
        self._say(self.lead, final, context("TERMINATE"))

    def _pass_to(self, name: str) -> Piece:
        return dialogue(
            self.wording(
                "{Over to you, {name}.|{name}, please go on.|@{name} your turn.|Next: {name}.}",
                name=name,
            )
        )

    def _say(self, name: str, *pieces: Piece) -> None:
        self._turn += 1
        if self.layout == "names":
            self.builder.add("assistant" if self._turn % 2 else "user", *pieces, name=name)
        elif self.layout == "headers":
            header = f"{name} (to chat_manager):\n\n"
            rule = "\n" + "-" * 48
            self.builder.add(
                "assistant" if self._turn % 2 else "user", context(header), *pieces, context(rule)
            )
        else:
            self.builder.add(name.lower(), *pieces)

    def _result(self, *pieces: Piece) -> None:
        if self.layout == "headers":
            self.builder.add("user", context("runner (to chat_manager):\n\n"), *surround(pieces))
        else:
            self.builder.add("tool", *pieces, name="runner")
