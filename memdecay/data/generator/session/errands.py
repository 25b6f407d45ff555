"""The errands of a long session; each needs facts of the first turn."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from collections.abc import Callable

from memdecay.data.generator.builder import (
    Piece,
    TraceBuilder,
    context,
    decision,
    dialogue,
    finding,
)
from memdecay.data.generator.dialects import TEXT_STYLES, Dialect
from memdecay.data.generator.records import line_pieces, table_lines
from memdecay.data.generator.session.facts import Facts
from memdecay.data.generator.vocabulary import mail, people, shell
from memdecay.data.generator.vocabulary.incidents import CAUSES, log_lines
from memdecay.data.generator.vocabulary.tables import draw_data_set, sample_rows
from memdecay.data.generator.wording import Wording


class Errands:
    """Writes the errands of one session and keeps their outcomes."""

    def __init__(self, wording: Wording, builder: TraceBuilder, facts: Facts) -> None:
        self.wording, self.builder = wording, builder
        self.facts = facts
        self.dialect = Dialect(wording, wording.pick(sorted(set(TEXT_STYLES) - {"bracket"})))
        self.outcomes: list[str] = []

    @property
    def all(self) -> list[Callable[[], None]]:
        """All errands, in no particular order."""
        return [
            self.change_order,
            self.mend_code,
            self.read_logs,
            self.count_sales,
            self.answer_mail,
            self.pack_release,
        ]

    def change_order(self) -> None:
        """Change the order, paid as agreed."""
        wording, facts = self.wording, self.facts
        wish = wording.pick(
            [
                "two more filter sets",
                "delivery on the ramp",
                "a spare power supply",
                "the longer warranty",
            ]
        )
        self._request(
            "{Next, my order|Now to the order}. {Add|I want} {wish}.", wish=wish, fixes=True
        )
        self._call(
            "get_order", {"order_id": facts.order_id}, f"I look up order {facts.order_id} first."
        )
        history = [
            f'  {{"at": "{people.day(wording)}T{people.clock(wording)}", "by": "{wording.code("svc-##")}", "event": "{event}", "trace": "{wording.code("~~~~~~~~~~~~")}"}},'
            for event in wording.shuffled(
                [
                    "created",
                    "priced",
                    "reserved",
                    "mail sent",
                    "synced",
                    "audited",
                    "label printed",
                    "synced",
                ]
            )
        ]
        head = f'{{"order_id": "{facts.order_id}", "status": "pending", "total": "{wording.number(80, 900)}.00 EUR", "history": ['
        self.dialect.result(
            self.builder, finding(head + "\n"), context("\n".join(history) + "\n]}")
        )
        price = f"{wording.number(9, 90)}.50 EUR"
        self.builder.add(
            "assistant",
            decision(
                f"{wish.capitalize()} for order {facts.order_id} at {price}, charged to {facts.payment}. "
            ),
            dialogue(wording("{Shall I?|Is that right?}")),
        )
        self.builder.add("user", decision(wording("{Yes, please|Yes, go ahead|Correct, do it}.")))
        self._call(
            "change_order", {"order_id": facts.order_id, "change": wish, "payment": facts.payment}
        )
        reference = wording.code("CH-#####")
        self.dialect.result(self.builder, finding(f"ok, reference {reference}"))
        self._report(
            f"Order {facts.order_id}: {wish} added for {price} on {facts.payment}, reference {reference}."
        )

    def mend_code(self) -> None:
        """Find and change a value in the project, on the agreed branch."""
        wording, facts = self.wording, self.facts
        name = f"{wording.pick(['retry', 'cache', 'session', 'upload', 'batch'])}_limit"
        value = wording.number(20, 900)
        self._request(
            "{In the code|In the project}, {name} {is too low|should be higher}. Set it to {value}.",
            name=name,
            value=value,
            fixes=True,
        )
        self._call(
            "run",
            {"command": f"cat {facts.root}/settings.py"},
            f"The settings are in {facts.root}, I read them.",
        )
        lines = shell.unrelated_code(wording, "settings.py", wording.number(3, 9))
        place = wording.number(3, len(lines) - 3)
        lines.insert(place, f"{name.upper()} = {wording.number(1, 19)}")
        self.dialect.result(self.builder, *line_pieces(lines, {place}, has_final_newline=False))
        command = f"cd {facts.root} && git switch {facts.branch} && sed -i 's/^{name.upper()} = .*/{name.upper()} = {value}/' settings.py && git commit -qam '{facts.ticket}: raise {name}'"
        self._call(
            "run",
            {"command": command},
            f"One line has to change; I do it on {facts.branch} and name {facts.ticket} in the commit.",
        )
        self.dialect.result(self.builder, finding(f"Switched to branch '{facts.branch}'"))
        self._call(
            "run",
            {"command": f"cd {facts.root} && python -m pytest"},
            "The tests show whether anything depends on the old value.",
        )
        count = wording.number(8, 24)
        self.dialect.result(
            self.builder,
            context("\n".join(shell.passed_tests(wording, "python -m pytest", count)) + "\n"),
            finding(f"{count} passed"),
        )
        self._report(
            f"{name.upper()} is {value} in {facts.root}/settings.py on branch {facts.branch}."
        )

    def read_logs(self) -> None:
        """Find out from the log why the service fails."""
        wording, facts = self.wording, self.facts
        cause = wording.pick(CAUSES)
        self._request(
            "{The service {failed again|had errors} last night.|There was an alarm.} {Why?|What happened?}"
        )
        self._call(
            "run",
            {"command": f"curl -s localhost:{facts.port}/debug/log"},
            f"{facts.service} listens on port {facts.port}, so its log is there.",
        )
        lines, wanted = log_lines(wording, cause, facts.service, wording.number(12, 32))
        self.dialect.result(self.builder, *line_pieces(lines, wanted, has_final_newline=False))
        self._report(
            f"{facts.service} on port {facts.port}: {cause.name.replace('{service}', facts.service)}; we {cause.remedy}.",
            is_diagnosis=True,
        )

    def count_sales(self) -> None:
        """Query a table and name the largest group."""
        wording, facts = self.wording, self.facts
        data = draw_data_set(wording)
        self._request(
            "{From the database|A number from the database}: which {group} {leads|is ahead} in {meaning}?",
            group=data.group,
            meaning=data.meaning,
        )
        self._call(
            "query",
            {"sql": f"SELECT * FROM {data.table} LIMIT 20"},
            "I look at some rows to see how the values are written.",
        )
        rows = table_lines(data.columns, sample_rows(wording, data, wording.number(6, 14)), "psql")
        self.dialect.result(self.builder, *line_pieces(rows, {0}, has_final_newline=False))
        self._call(
            "query",
            {"sql": f"SELECT {data.group}, SUM({data.measure}) FROM {data.table} GROUP BY 1"},
            f"Now the sum for each {data.group}.",
        )
        totals = wording.shuffled(sorted(data.totals.items()))
        lines = table_lines([data.group, "sum"], totals, "psql")
        place = 2 + [name for name, _ in totals].index(data.largest)
        self.dialect.result(self.builder, *line_pieces(lines, {place}, has_final_newline=False))
        self._report(
            f"{data.largest} leads in {data.meaning} with {data.totals[data.largest]}; noted in {facts.ticket}."
        )

    def answer_mail(self) -> None:
        """Read a message and answer it in the agreed form."""
        wording, facts = self.wording, self.facts
        topic = wording.pick(mail.TOPICS)
        mail_id = wording.code("m-~~~~~~")
        detail = wording(
            wording.pick(topic.details),
            number=wording.code("####"),
            place=people.invented_place(wording),
            amount=wording.number(120, 9800),
        )
        self._request(
            "{There is a message|A message came in}, {mail_id}. {See what it says and tell my contact|Read it and pass the point on}.",
            mail_id=mail_id,
            fixes=True,
        )
        self._call("read_mail", {"mail_id": mail_id})
        partner = people.full_name(wording)
        lines, wanted = mail.mail_body(
            wording, facts.owner, partner, people.email_of(partner, wording), topic, detail
        )
        self.dialect.result(self.builder, *line_pieces(lines, wanted, has_final_newline=False))
        body = f"Dear {facts.contact.split()[0]}, {detail} The deadline is {facts.deadline}. For {facts.owner}"
        self._call(
            "send_mail",
            {
                "to": facts.contact_email,
                "subject": f"[{facts.ticket}] {topic.subject}",
                "body": body,
            },
            f"{facts.contact} gets the report at {facts.contact_email}, with {facts.ticket} in the subject.",
        )
        self.dialect.result(self.builder, finding(f"sent to {facts.contact_email}"))
        self._report(f"{facts.contact} was told under {facts.ticket}: {detail}")

    def pack_release(self) -> None:
        """Pack files under a name with the agreed prefix."""
        wording, facts = self.wording, self.facts
        part = wording.pick(["assets", "docs", "binaries", "schemas"])
        self._request("{Please pack|I need an archive of} the {part}.", part=part, fixes=True)
        self._call("run", {"command": f"ls -la {facts.root}"}, f"First a look at {facts.root}.")
        lines = shell.listing(wording, part)
        wanted = {i for i, line in enumerate(lines) if line.endswith(f" {part}")}
        self.dialect.result(self.builder, *line_pieces(lines, wanted, has_final_newline=False))
        archive = f"{facts.prefix}_{part}_{facts.deadline}.tar.gz"
        self._call(
            "run",
            {"command": f"tar -C {facts.root} -czf /srv/out/{archive} {part}"},
            f"Release files start with {facts.prefix}, so the archive is {archive}.",
        )
        self.dialect.result(
            self.builder, finding(f"/srv/out/{archive} {wording.number(10, 900)} kB")
        )
        self._report(f"Archive {archive} with the {part} of {facts.root}.")

    def _request(self, template: str, *, fixes: bool = False, **values: object) -> None:
        text = self.wording(template, **values)
        self.builder.add("user", decision(text) if fixes else dialogue(text))

    def _call(self, name: str, arguments: dict[str, str], thought: str = "") -> None:
        before: tuple[Piece, ...] = (decision(thought),) if thought else ()
        self.dialect.call(self.builder, name, arguments, *before)

    def _report(self, outcome: str, *, is_diagnosis: bool = False) -> None:
        self.outcomes.append(outcome)
        report = decision(outcome) if is_diagnosis else dialogue(outcome)
        self.builder.add(
            "assistant",
            report,
            dialogue(
                self.wording(
                    " {What is next?|Anything to change about it?|Tell me what comes next.}"
                )
            ),
        )
