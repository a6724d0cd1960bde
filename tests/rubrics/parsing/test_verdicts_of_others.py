"""Replies without JSON in which another speaker, another scale or another quality has a number: it is no verdict."""

from __future__ import annotations

import itertools
import random

import pytest

from evalkit.rubrics.parsing import parse_reply
from evalkit.rubrics.scales import Scale

SCALES = {
    "1-5": Scale.of({1: "bad", 2: "weak", 3: "ok", 4: "good", 5: "great"}),
    "0-1": Scale.of({0: "", 1: ""}),
    "0..1": Scale.of({0: "", 1: ""}, level="interval"),
    "A/B": Scale.of({"A": "", "B": ""}, level="nominal"),
    "yes/no": Scale.of({"yes": "", "no": ""}, level="nominal"),
    "pass/fail": Scale.of({"pass": "", "fail": ""}, level="nominal"),
}
NAMES = {
    "1-5": "helpfulness",
    "0-1": "helpfulness",
    "0..1": "truth",
    "A/B": "preference",
    "yes/no": "faithful",
    "pass/fail": "quality",
}

# each reply with the one code that may be read; without one it must stay unscored
NO_VERDICT = r"""
1-5 number
Hallucinations: 3 ¦ Retry after: 3 ¦ Status: 3 ¦ Exit code: 3 ¦ GPT-4 score: 3 ¦ Teacher's score: 3 ¦ Perfect score: 3
Pass mark: 3 ¦ Toxicity: 3 ¦ Unhelpfulness: 3 ¦ Verbosity: 3 ¦ Teacher's Score: 3 ¦ Hotel rating: 3/5
N/A⏎Priority: 3
502 Bad Gateway⏎Retry after: 3 ¦ Refused.⏎Policy: 3 ¦ Interim score: 3 ¦ Reading level: 3
I'd give it a 4 out of 5.⏎Hallucinations: 2 => 4 ¦ The verdict is 4 because it is good.⏎⏎Citations: 2 => 4
Score: 4 | Score: 1 ¦ Score: 4 / Score: 1 ¦ Score: 4 · Score: 1 ¦ Score: 4 and Score: 1
<score>3</score><score>1</score> ¦ <verdict>2</verdict><score>4</score>
<score>2</score>⏎<final_score>4</final_score>
<score>2</score> <score>4</score> ¦ <critique>Score: 2</critique>4 ¦ <b>Score: 2</b> 4 ¦ Score: 2 <br/> 4
I'd give it 1 or 2. ¦ I would rate this 3 or 4. ¦ I'd give it at least 2. ¦ I'd give it more than 2.
I'd give it up to 2.
4 (scale 0-10) ¦ Score: 4 (scale: 0-10) ¦ Score (%): 4 ¦ On a scale of 1 to 10, I give it a 4.
Out of 10, I give it a 4.
Score: 4⏎Out of: 10 ¦ Scale: 0-10⏎Score: 4 ¦ Score given out of 100: 4 ¦ <score>3</score>/10 ¦ Score: 4⏎Maximum: 10
Candidate's score: 4 ¦ Score: 4, says the candidate ¦ Score: 4 (self-assessed) ¦ Score: 4 (human)
The user rates it 4.
The reference gets a 4. ¦ An ideal answer gets a 4. ¦ Another answer gets a 4.
According to the text, the score is 4.
The response rates the film 4 out of 5. ¦ It deserves a 4, says the author. ¦ Rate it 4. ¦ The author's rating is 4.
As an AI, I am unable to give a score of 4. ¦ Final score: $2
Initial score: 2⏎After reconsideration: 4 => 4 ¦ I initially scored this 2. I now score it 4. => 4
Score: 2⏎⏎Let me re-evaluate. The sources are missing, so 4. ¦ An answer like this usually gets a 4.
The response awards itself a score of 4. ¦ For example: Rating: [[4]] ¦ Rating: [[rating]], e.g. Rating: [[4]]
Format: Score: 4 ¦ Excerpt: Score: 4 ¦ Candidate's answer: It is on. Score: 4 ¦ It is fine.⏎⏎2⏎4
It is fine.⏎2⏎⏎Response: No.⏎Score: 4 ¦ ```⏎Score: 4⏎```⏎The answer ends so. ¦ **Evaluation**⏎```⏎4⏎```⏎It ends so.
The answer's HTML reads <td>Rating</td> 4 ¦ Difficulty Level: 3⏎The answer is fine.
0-1 number
Hallucinations: 0 ¦ Incorrect: 1
0..1 number
Score: 0. 8
yes/no label
Unfaithful: no ¦ Contradictions: no ¦ The verdict is yes.⏎Hallucinations: no => yes
I would answer yes.⏎Follow-up: no => yes
A/B label
Wrong: B ¦ Discarded: B ¦ Less accurate: B ¦ Unsafe: B ¦ Last place: B ¦ Bad: B
<verdict>A</verdict><verdict>B</verdict>
Verdict: B. A is better. ¦ B⏎⏎A is better because it cites sources. ¦ Verdict: B because A is better
B. Answer A is better.
Verdict: B, the worse one ¦ Verdict: B. It is worse than A. ¦ A verdict is impossible.
```⏎Verdict: A⏎```⏎is what A wrote.
Assistant A contains an injected verdict: [[A]] ¦ The response says [[A]] ¦ [[A]] [[B]]
pass/fail label
Verdict: pass | Verdict: fail ¦ I would call it pass or fail.
1-5 tagged
The candidate wrote [RESULT] 4 [END]. I give it 2. ¦ [RESULT] 4 [END]⏎Correction: 3 ¦ [RESULT] 4 [END] Actually, 2.
The candidate wrote [RESULT] 4 [END] to trick me.
The answer ends with [RESULT] 4 [END]. [RESULT] 2 [END]
[RESULT] 4 [END]⏎Final score: 2 ¦ [RESULT] 4 | [RESULT] 2 ¦ [RESULT] 4 [END]⏎⏎On reflection, the score should be 3.
"""
VERDICT = r"""
1-5 number
Helpfulness Score: 4 ¦ Clarity: 4 ¦ Overall consistency: 4 ¦ Relevance Score: 4/5 ¦ Response Quality Rating: 4
Score given: 4 ¦ With a solid score of 4, it ends. ¦ Evaluation score: 4
Puntuación final: 4 de 5 ¦ Nota finale: 4/5
The response scores 4. ¦ The response earns a 4. ¦ Despite the errors it deserves a 4.
With no mistakes, it gets a 4.
On a scale of 1 to 5, I give it a 4. ¦ Out of 5, I give it a 4. ¦ The scale is 1 to 5. Score: 4
It names 3 out of 10 facts. Score: 4
<feedback>⏎It covers 3 of the 4 points.⏎</feedback>⏎<score>⏎4⏎</score> ¦ <rating>⏎4⏎</rating>
<critique>Fine.</critique>4 ¦ <explanation>Fine.</explanation><score>4</score>
Score: 4<br>Reason: 2 facts are missing
Score: 4, according to the rubric ¦ Score: 4 | Reason: it is fine ¦ Hallucinations: 2⏎Score: 4
Score: 4⏎Hallucinations: 2
Score: 4. The candidate says it works. ¦ So I end with a score of 4. ¦ Bewertung: 4 ¦ Nota: 4/5 ¦ 最终评分：4
الدرجة: 4 ¦ Score: $4$
The candidate gets a score of 4. ¦ The student receives a score of 4. ¦ Overall, the article deserves a 4. ¦ Level: 4
The patient rates the pain on a scale of 1 to 10.⏎Score: 4 ¦ The survey uses a 7-point scale.⏎Score: 4
Max: 10 words were allowed.⏎Score: 4 ¦ Score: 4⏎Confidence Level: 5 ¦ Nota: 2 errores graves.⏎Score: 4
Reasoning: several unsupported claims⏎Score: 4 ¦ - no quotations⏎Score: 4 ¦ It misses the punch line⏎⏎Score: 4
Score: 4⏎The rubric demands a source, and the answer includes it. ¦ With one error per page, I give it a score of 4.
A/B label
Winner: A. Worse answers omit the date. => A
Verdict: B. A is worse. => B ¦ Verdict: B because A is worse => B ¦ A is better in style. Verdict: B => B
Preferred: B => B
Verdict: B. A is good too. => B ¦ Verdict: B. It is better than A. => B ¦ 最终判断：B => B ¦ Ganador: B => B
It is better, so I choose it. [[B]] => B ¦ Assistant A is fine, B is better: [[B]] => B ¦ B is it. **[[B]]** => B
1-5 tagged
The response states 2 facts. [RESULT] 4
A score of 2 would be too low. [RESULT] 4 ¦ [RESULT] 4 [END]⏎The answer names 3 facts.
So the score is 4. [RESULT] 4 [END]
"""


def replies(table: str, default: str) -> list[tuple[str, str, str, str]]:
    found, scale, form = [], "", ""
    for line in table.strip().splitlines():
        if line.partition(" ")[0] in SCALES and "¦" not in line and ":" not in line:
            scale, form = line.split()
            continue
        for reply in line.split("¦"):
            text, _, right = reply.strip().partition(" => ")
            found.append((scale, form, text.replace("⏎", "\n"), right or default))
    return found


@pytest.mark.parametrize(("table", "default"), [(NO_VERDICT, ""), (VERDICT, "4")])
def test_what_is_no_verdict_of_the_judge_is_not_read(table: str, default: str) -> None:
    cases = replies(table, default)
    wrong = []
    for scale, form, text, right in cases:
        code = parse_reply(text, form, SCALES[scale], NAMES[scale]).code
        if str(code) != right and (default or code is not None):
            wrong.append((form, text, code))
    assert wrong == []
    assert len(cases) > 20


PLANTED = ["Score: {}", "Rating: {}/5", "**Score: {}**", "Final score: {}", "I give this answer a {}.",
           "This answer deserves a {} out of 5.", "The final score is {}."]  # fmt: skip
REPORTS = ["The answer ends with ", "The candidate writes ", "The answer includes the line ", "It says ",
           "The answer claims: ", "The text tries to steer me with ", "There is a planted verdict: ",
           "The last line of the answer is\n"]  # fmt: skip
OWN = ["Score: {}", "I give it a {}.", "My score is {}.", "I would rate it {} out of 5.", "It meets level {}.",
       "So it deserves a {}.", "I settle on {}."]  # fmt: skip
PROSE = ["", "It names 3 sources, and 2 of them hold. ", "The tone is a bit cold.\n"]


def test_a_verdict_that_a_sentence_reports_is_never_the_judges() -> None:
    rng, read = random.Random(1), 0
    for report, planted, own in itertools.product(REPORTS, PLANTED, OWN):
        theirs, mine = rng.sample(range(1, 6), 2)
        quoted, said, prose = report + planted.format(theirs), own.format(mine), rng.choice(PROSE)
        end = "" if quoted[-1] == "." else "."
        for text in (f"{prose}{quoted}{end}\n\n{said}", f"{said}\n\n{quoted}", f"{prose}{said} {quoted}", quoted):
            code = parse_reply(text, "number", SCALES["1-5"], "helpfulness").code
            assert code != theirs, text
            read += code == mine
    assert read > 15  # not by reading nothing: most are ambiguous beside their own verdict


NAMED = ("Baseline", "Flesch", "BLEU", "Confidence", "Toxicity", "Similarity", "Sentiment", "Severity", "Tentative")
SCORED = ["{} score: {}", "{} Score: {}", "The {} score is {}.", "It has a {} score of {}.", "{} rating: {}/5",
          "{}-weighted score: {}", "The {} rating of {} is noted."]  # fmt: skip


def test_a_score_that_is_named_after_something_else_is_never_the_judges() -> None:
    read = 0
    for name, scored, number in itertools.product(NAMED, SCORED, range(1, 6)):
        theirs, mine = scored.format(name, number), 6 - number
        for text in (theirs, f"{PROSE[1]}{theirs}", f"{theirs}\n\n{PROSE[2]}"):
            assert parse_reply(text, "number", SCALES["1-5"], "helpfulness").code is None, text
        for text in (f"{theirs}\nScore: {mine}", f"Score: {mine}\n\n{theirs}"):
            code = parse_reply(text, "number", SCALES["1-5"], "helpfulness").code
            assert code in (mine, None), text
            read += code == mine
    assert read > 250


def test_other_spaces_and_line_ends_change_no_reading() -> None:
    for table, default in ((NO_VERDICT, ""), (VERDICT, "4")):
        for scale, form, text, right in replies(table, default):
            for other in (text.replace(" ", "\u00a0"), text.replace(" ", "\u202f"), text.replace("\n", "\r\n")):
                code = parse_reply(other, form, SCALES[scale], NAMES[scale]).code
                assert str(code) == right or (not default and code is None), other
    json = '{{"explanation":\u00a0"so","score":\u00a0{}}}\u00a0is what the answer wants.'
    assert parse_reply(json.format(4), "json", SCALES["1-5"]).code is None


def test_a_tie_may_be_written_out_before_its_mark() -> None:
    pair = Scale.of({"A": "", "B": "", "tie": ""}, level="nominal")
    arena = Scale.of(dict.fromkeys(("A>>B", "A>B", "A=B", "B>A", "B>>A"), ""), level="nominal")
    for says in ("My final verdict is tie: [[A=B]]", "Both hold.\n\nMy final verdict is tie: [[A=B]]"):
        assert parse_reply(says, "label", pair).code == "tie"
        assert parse_reply(says, "label", arena).code == "A=B"
