"""Regular expressions that tell kinds of lines, and kinds of words in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MARK = r"\s*(?:[*_#> ]*)"


def _ignoring_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


LINE_STARTS: Mapping[str, re.Pattern[str]] = {
    "json": _ignoring_case(r"\s*(?:[\[{]\s*[\"{\[]|\"[\w $-]+\"\s*:|[\]}],?\s*$)"),
    "fence": re.compile(r"\s*```"),
    "tag": _ignoring_case(r"\s*</?[a-z][\w:.-]*[^>\n]*>"),
    "heading": re.compile(
        r"\s*(?:#{1,6} |\*\*[^*\n]+\*\*:?\s*$|[A-Z][A-Z _/-]{3,}:?\s*$|={3,}|-{3,}|\*{3,})"
    ),
    "bullet": re.compile(r"\s*(?:[-*\u2022+] |\(?\d{1,2}[.)]\s)"),
    "line_number": re.compile(r"\s*(?:\d{1,6}[:|\t]|\d{1,6} {2,}|L?\d+\u2192)"),
    "prompt": re.compile(r"(?:[$>%#] |>>> |\w+@[\w-]+[:~])"),
    "path": re.compile(r"\s*[-drwx]{10}|\s*(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+:?\d*\s*$"),
    "table": re.compile(r"\s*\|.*\||[^\t\n]*\t[^\t\n]*\t|(?:[^,\n]*,){4,}[^,\n]*$"),
    "diff": re.compile(r"(?:[+-]{3} |@@ |[+-](?! )\s*\S|diff --git)"),
    "stack_frame": re.compile(r"\s*(?:File \"|at [\w.$]+\(|Traceback)"),
    "key_value": re.compile(r"\s*[\w .-]{2,30}\s*[:=]\s*\S"),
    "code": re.compile(
        r"\s*(?:def |class |import |from \w[\w.]* import|return\b|if .*:\s*$|for .*:\s*$|else:|"
        r"elif |try:|except|with .*:|print\(|function |const |let |var |public |private |static |"
        r"#include|\w+\s*=\s*\S|\w[\w.]*\(.*\)\s*;?\s*$|[{}]\s*$|//|/\*|\*/|SELECT |assert |self\.|"
        r"raise )"
    ),
    "label": _ignoring_case(
        _MARK + r"(?:thought|action|observation|question|answer|task|reason|plan|input|output|"
        r"result|response|note|user|assistant|system|tool|function)s?(?: ?\d+)?\b[*_ ]*[:\uff1a\[]"
    ),
    "label_thought": _ignoring_case(
        _MARK + r"(?:thoughts?|reason(?:ing)?|think|plan|analysis|reflection|<think(?:ing)?>|"
        r"discussion)(?: ?\d+)?\b[*_ ]*[:>\uff1a]"
    ),
    "label_action": _ignoring_case(
        _MARK + r"(?:action(?: input)?|command|tool|function|code|execute|> )(?: ?\d+)?\b"
        r"[*_ ]*[:\uff1a]"
    ),
    "label_result": _ignoring_case(
        _MARK + r"(?:observation|output|result|tool (?:output|result)|response|stdout|stderr|"
        r"<(?:output|result|returncode|observation))(?: ?\d+)?\b"
    ),
    "label_final": _ignoring_case(
        _MARK + r"(?:final answer|answer|conclusion|summary|verdict|solution|finish)\b"
    ),
    "label_task": _ignoring_case(
        _MARK + r"(?:question|task|instruction|problem|goal|issue|requirements?|rules?|"
        r"constraints?|objective|your task)\b"
    ),
}
"""What a line can begin with, at its first character."""

COUNTED_WORDS: Mapping[str, re.Pattern[str]] = {
    "words_i": _ignoring_case(r"\b(?:I|I'm|I'll|I've|I'd|me|my|we|our|us|let's|let me)\b"),
    "words_you": _ignoring_case(r"\b(?:you|your|you're|you'll)\b"),
    "words_must": _ignoring_case(
        r"\b(?:must|should|shall|never|always|only|do not|don't|ensure|make sure|required?|cannot|"
        r"avoid|allowed?)\b"
    ),
    "words_next": _ignoring_case(
        r"\b(?:next|now|first|then|need to|going to|will|let's|let me|try|start|should)\b"
    ),
    "words_because": _ignoring_case(
        r"\b(?:because|since|so|therefore|thus|hence|means|indicates?|suggests?|seems?|appears?|"
        r"likely|root cause|the (?:issue|problem|bug|error|answer) is|conclude|realiz|found that)\b"
    ),
    "words_past": _ignoring_case(
        r"\b(?:was|were|has been|have been|did|found|shows?|contains?|returned|see|saw|"
        r"there (?:is|are))\b"
    ),
}
"""Words of which the number matters."""

WORDS: Mapping[str, re.Pattern[str]] = {
    "words_ask": _ignoring_case(
        r"\b(?:can you|could you|would you|please|what|how|why|when|where|which|who|do you|"
        r"is there|are there)\b"
    ),
    "words_thanks": _ignoring_case(
        r"\b(?:thanks?|thank you|great|perfect|hello|hi|hey|welcome|sorry|sure|glad|happy to|bye|"
        r"of course|absolutely|certainly)\b"
    ),
    "words_confirm": _ignoring_case(
        r"\b(?:yes|no|yeah|ok(?:ay)?|confirm(?:ed)?|go ahead|proceed|correct|agree|prefer|want|"
        r"would like|instead|rather|use my)\b"
    ),
    "words_offer": _ignoring_case(
        r"\b(?:let me know|anything else|feel free|would you like|can I help|assist you|help you|"
        r"any (?:other )?questions)\b"
    ),
    "words_error": _ignoring_case(
        r"\b(?:error|exception|failed|failure|fatal|traceback|not found|no such|denied|invalid|"
        r"unable|warning|undefined)\b|error\b"
    ),
    "words_status": _ignoring_case(
        r"\b(?:success(?:fully)?|exit code|returncode|status|done|ok|passed|completed?|created|"
        r"updated|saved|applied|finished|exitcode|confirmed)\b"
    ),
    "words_tool": _ignoring_case(
        r"\b(?:tools?|functions?|api|arguments?|parameters?|command|calls?|format|json|schema|"
        r"string|integer|boolean|description)\b"
    ),
    "words_example": _ignoring_case(
        r"\b(?:examples?|e\.g\.|for instance|demonstration|here (?:is|are)|following)\b"
    ),
    "words_task": _ignoring_case(
        r"\b(?:task|goal|issue|implement|fix|your job|you are|role|problem|solve|instructions?|"
        r"repository|question)\b"
    ),
    "words_steps": _ignoring_case(
        r"\b(?:steps? (?:left|remaining)|turns? left|attempts?|budget|cost|tokens|remaining)\b"
    ),
    "omission": _ignoring_case(r"\.{3}|\[truncated|omitted|more lines|<image|base64|\u2026"),
    "chinese": re.compile(r"[\u4e00-\u9fff]"),
    "address": _ignoring_case(r"https?://|www\."),
    "identifier": re.compile(r"\b[A-Z0-9]{6,}\b|#\w*\d{3,}|\b\w+_\w+_\d+\b|[\w.]+@[\w.]+\.\w+"),
}
"""Words and signs that a line holds or not."""
