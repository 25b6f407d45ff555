"""Subjects that people ask an assistant about, with what there is to say."""
# ruff: noqa: E501 (a template reads best on one line)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to explain.

    Attributes:
        question: How people ask (template).
        sentences: What one can answer (templates), in a sensible order.
        example: A block of code or a list; may be empty.
        follow_ups: Further questions, each with its answer (templates).
    """

    question: str
    sentences: tuple[str, ...]
    example: str
    follow_ups: tuple[tuple[str, str], ...]


SUBJECTS = (
    Subject(
        "{Can you explain|What is} {a hash table|how a hash table works}?",
        ("A hash table {stores|keeps} pairs of key and value so that looking one up takes about the same time however many there are.", "The key goes through a function that turns it into a number, and that number {says|decides} which slot the pair belongs to.", "Two keys may land in one slot; {then the slot keeps a short list|a common answer is to try the next free slot}.", "When the table gets crowded it is copied into a larger one, which is {slow once, but rare|the price paid now and then}.", "The order of the entries is {usually not something to rely on|an accident of the implementation unless the documentation promises it}."),
        "```python\nstock = {}\nstock['tea'] = 12\nstock['salt'] = 3\nfor name in sorted(stock):\n    print(name, stock[name])\n```",
        (("And when would I not use one?", "When you need the entries in order or by range; a sorted array or a tree {fits better|is the better choice} there."), ("What makes a hash function good?", "It should be fast and spread similar keys over {all slots|the whole table}.")),
    ),
    Subject(
        "How do I {keep basil alive|look after a basil plant} {on the windowsill|indoors}?",
        ("Basil from the supermarket is {usually many small plants crammed into one pot|sown far too densely}, so divide it into three or four.", "Water it from below, {a little every day|when the surface feels dry}, and never leave it standing in water overnight.", "It {wants|needs} six hours of light; a south-facing window is {ideal|best}.", "Cut whole stems above a pair of leaves instead of plucking single leaves, then it {branches|grows bushier}.", "Below twelve degrees the leaves {turn black|suffer}."),
        "1. Divide the plant.\n2. Repot into loose soil.\n3. Water from below.\n4. Cut stems, not leaves.",
        (("Mine has small flies, what now?", "Those are fungus gnats; let the soil dry {between waterings|for some days} and put a yellow sticky trap next to it."), ("Can I freeze the leaves?", "Yes, chopped and covered with oil in an ice cube tray.")),
    ),
    Subject(
        "What's the difference between {TCP and UDP|the TCP and UDP protocols}?",
        ("TCP sets up a connection and {guarantees|makes sure} that bytes arrive complete and in order.", "UDP sends single datagrams and {leaves everything else to you|promises nothing}.", "The price of TCP is waiting: a lost packet holds up all that follow.", "That is why {live audio and games|voice calls} prefer UDP: an old sample is worth less than a fresh one.", "Newer protocols such as QUIC build reliability on top of UDP and {avoid|reduce} that waiting."),
        "| | TCP | UDP |\n|---|---|---|\n| order kept | yes | no |\n| connection | yes | no |\n| typical use | web, mail | calls, games |",
        (("Which one does DNS use?", "Mostly UDP, with TCP for {large answers|answers that don't fit}."), ("Is UDP faster?", "It has less overhead, but speed depends on what you build on it.")),
    ),
    Subject(
        "{Could you help me|I want to} {prepare|get ready} for a job interview{ next week|}.",
        ("Start with the advert: {underline|list} the five things it asks for and find one story from your work for each.", "Tell each story in the same order: the situation, what you did, what came out of it.", "{Prepare|Have ready} three questions of your own, for example about the first three months.", "Practise aloud, {ideally with someone who interrupts|at least once, with a clock}.", "On the day, ask for a moment to think when a question is hard; {nobody minds|that looks thoughtful, not slow}."),
        "",
        (("What do I say about my weaknesses?", "Name a real one that does not decide the job, and what you {do|have done} about it."), ("Should I bring up the salary?", "Only when they do, or in the last round.")),
    ),
    Subject(
        "Write me a {short|little} script that {renames|numbers} {photos|pictures} by date.",
        ("Here is a version that uses only the standard library.", "It sorts the files by the time of their last change and gives them a running number.", "Files that already have the right name are {left alone|skipped}.", "Try it on a copy of the folder first, {since renaming can't be undone easily|just to be safe}."),
        "```python\nfrom pathlib import Path\n\nfolder = Path('photos')\nfiles = sorted(folder.glob('*.jpg'), key=lambda p: p.stat().st_mtime)\nfor number, path in enumerate(files, 1):\n    target = folder / f'{number:04d}.jpg'\n    if path != target and not target.exists():\n        path.rename(target)\n```",
        (("What if two files have the same time?", "Then they {keep the order in which the folder lists them|are sorted by name if you add the name to the key}."), ("Can it look into subfolders?", "Yes, replace `glob` by `rglob`; think about where the renamed files should go.")),
    ),
    Subject(
        "Why {does bread need|do we add} salt{ at all|}?",
        ("Taste is {only half of the answer|the obvious reason, but not the only one}.", "Salt {tightens|strengthens} the gluten, so the dough holds its gas and keeps its shape.", "It slows the yeast down, which {gives more time for flavour|makes the rise easier to control}.", "Two per cent of the weight of the flour is {usual|a good start}.", "Without it the crust stays pale, because {the yeast eats more of the sugar|less sugar is left for browning}."),
        "flour 500 g\nwater 340 g\nsalt 10 g\nyeast 5 g",
        (("Does it matter when I add it?", "Not much; {some bakers wait until the dough has rested|only don't put it right on top of the yeast}."), ("Is sea salt better?", "For the dough it makes no difference, as long as the grains dissolve.")),
    ),
    Subject(
        "{How does|Explain how} compound interest {work|works}{ to me|}.",
        ("Interest is paid on what you put in and on the interest {earned before|of the earlier years}.", "In the first years that hardly shows, later it {dominates|makes up most of the growth}.", "The formula is final = start times (1 + rate) to the power of years.", "A rule of thumb: 72 divided by the rate in per cent is the number of years until the sum doubles.", "Fees work the same way against you, {so small ones matter|which is why a single per cent matters over decades}."),
        "year 1: 1,040.00\nyear 5: 1,216.65\nyear 10: 1,480.24\nyear 30: 3,243.40",
        (("And with inflation?", "Subtract it from the rate for a good estimate of {what you can buy|the real growth}."), ("How often is it paid?", "Yearly or monthly; monthly gives {slightly|a little} more.")),
    ),
)  # fmt: skip
