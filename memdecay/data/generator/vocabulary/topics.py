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
    Subject(
        "{What should I look at|How do I choose} when I buy {a used bicycle|a second-hand bike}?",
        ("Turn the cranks and listen: {grinding|a dull knock} means a worn bearing.", "Lift the front wheel and spin it; the rim should not {wander|swing} from side to side.", "Look along the frame from above, {dents and wrinkled paint near the head tube|bent dropouts} are a reason to walk away.", "Chains and cables are cheap, {wheels and forks are not|a fork is not}.", "Ask for the receipt or the frame number and {compare it|look it up} with the register of stolen bikes."),
        "- 15 minutes test ride\n- all gears under load\n- both brakes alone\n- lock and keys",
        (("Is rust a problem?", "On bolts no, on the inside of the rim or the seat post {yes|it can be}."), ("How much should I pay?", "About half of the new price after three years, less if the drivetrain is due.")),
    ),
    Subject(
        "{Why is|How come} the sky {blue|red in the evening}?",
        ("Air scatters short waves much more {strongly|often} than long ones.", "So blue light comes to your eye from {all directions|everywhere}, and the sun itself looks a little yellow.", "In the evening the light {travels|has to go} through far more air, the blue is scattered out of the way and red is left.", "Dust and {smoke|salt over the sea} make the red stronger.", "Violet is scattered even more, but {the sun sends less of it and our eyes see it poorly|the eye hardly sees it}."),
        "",
        (("And on Mars?", "There it is the other way round: dusty red by day, bluish around the setting sun."), ("Why are clouds white?", "Their droplets are large and scatter all colours about equally.")),
    ),
    Subject(
        "How can I {undo|take back} my last commit{ in git|}?",
        ("That depends on whether you have {pushed it|shared it} already.", "If not, a soft reset moves the branch back one step and {keeps|leaves} your changes staged.", "If others may have it, revert creates a new commit that {cancels|undoes} the old one and rewrites nothing.", "For a mere typo in the message, amend is {enough|all you need}.", "Should something go wrong, the reflog still {knows|lists} where the branch was."),
        "```\ngit reset --soft HEAD~1   # not pushed yet\ngit revert HEAD           # already pushed\ngit commit --amend        # message only\n```",
        (("What does HEAD~1 mean?", "The commit before the one you are on."), ("And with two commits?", "Use `HEAD~2` with reset, or revert both, the newer one first.")),
    ),
    Subject(
        "Tell me {something|a bit} about the history of {paper|paper making}.",
        ("Before paper people wrote on {clay, papyrus and skins|whatever was at hand}, all of them heavy or dear.", "Sheets made of plant fibres {appeared|are known} in China about two thousand years ago.", "The craft {moved west|spread} along the trade routes and reached Europe by way of Spain and Sicily.", "For centuries the raw material was rags, {which were always short|and rag collectors a trade of their own}.", "Wood pulp and the paper machine made it {cheap|a mass product} in the nineteenth century, at the price of acid that {yellows|eats} it."),
        "",
        (("What is a watermark?", "A thinner place in the sheet, made by a wire bent into a {shape|mark} on the mould."), ("Can I make paper at home?", "Yes, with a blender, a frame with a fine mesh and old {newspapers|envelopes}.")),
    ),
    Subject(
        "{Explain|Can you explain} {unit tests|what a unit test is} {to someone new to programming|in simple terms}?",
        ("A unit test {calls|runs} a small piece of code with known input and compares the result with what it should be.", "It is {written once and run often|cheap to run}, after every change if you like.", "When it fails it tells you {which promise was broken|where to look}, ideally in its name.", "Good tests check behaviour and not the way it is {done|implemented}, otherwise they break with every cleanup.", "They {don't prove|never prove} that the program is right, but they {keep old mistakes from coming back|catch the return of old mistakes}."),
        "```python\ndef area(width, height):\n    return width * height\n\ndef test_area_of_a_square():\n    assert area(3, 3) == 9\n```",
        (("How many should I write?", "One for each promise of the function, and one for each bug you {fix|find}."), ("What is a mock?", "A stand-in for something slow or remote, which {answers as you tell it|you control}.")),
    ),
    Subject(
        "{Plan|Could you plan} a {three-day|long weekend} trip to {the mountains|a lake} {with two children|for four people}.",
        ("Day one: {arrive by train around noon|travel in the morning}, a short walk to the water, pancakes in the evening.", "Day two is the big one: {cable car up, four kilometres down with a playground halfway|a boat trip in the morning and a treasure hunt in the afternoon}.", "Keep {day three|the last day} light, a swim or the small museum if it rains.", "Pack {one dry set of clothes for each|rain jackets even if it looks fine}, sandwiches and a card game.", "Book the {cabin|rooms} with a kitchen, it saves {two meals out|money and nerves}."),
        "| day | morning | afternoon |\n|---|---|---|\n| 1 | train | lake |\n| 2 | cable car | walk down |\n| 3 | swim | home |",
        (("What if it rains all the time?", "Then {swap day two for the indoor pool|take the museum and the climbing hall} and stay flexible."), ("Do we need a car?", "No, the bus from the station runs every hour.")),
    ),
    Subject(
        "{What does|What is} {inflation|the inflation rate} {measure|exactly}?",
        ("It says by how much prices have {risen|gone up} in a year, on average over a basket of goods.", "The basket {holds|contains} rent, food, energy, hairdressers and a few hundred other things, weighted by what households spend.", "Your own inflation {differs|may be quite different} if you spend differently, for example without a car.", "Central banks {aim at|want} about two per cent: enough to keep money moving, little enough to plan.", "Falling prices sound nice but {make people wait|lead firms to invest less}."),
        "basket 2029: 100.0\nbasket 2030: 102.4\ninflation: 2.4 %",
        (("Who collects the prices?", "Statistical offices, partly in shops, {more and more|increasingly} from scanner data."), ("Why leave out energy sometimes?", "Because it jumps around and {hides the trend|the core rate is steadier}.")),
    ),
)  # fmt: skip
