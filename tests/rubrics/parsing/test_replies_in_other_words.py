"""Replies written from the rule alone, without a look at the parser: clear ones are read, the others are not."""

from __future__ import annotations

import pytest
from reply_tables import replies_in, reply_tables

from evalkit.rubrics import load_rubric
from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.scales import Scale


def scale_of(name: str) -> Scale:
    """The scale of this name in `SCALES`; else a nominal one, whose codes the name lists."""
    if name in SCALES:
        return SCALES[name]
    codes = name.split("/")
    assert len(codes) > 1
    assert not any(code.isdecimal() for code in codes), name  # a name that was mistyped
    return Scale.of(dict.fromkeys(codes, ""), level="nominal")


SCALES = {
    "1-5": Scale.of(dict.fromkeys(range(1, 6), "")),
    "0/1/2": Scale.of({0: "", 1: "", 2: ""}),
    "right 0-2": Scale.of({0: "wrong", 1: "partly right", 2: "right"}),
    "0-10": Scale.of(dict.fromkeys(range(11), "")),
    "0/100 interval": Scale.of({0: "", 100: ""}, level="interval"),
    "0/0.5/1": Scale.of({0: "", 0.5: "", 1: ""}),
    "выполнено 0-2": Scale.of({0: "не выполнено", 1: "частично выполнено", 2: "выполнено полностью"}),
    "0/1": Scale.of({0: "", 1: ""}),
    "0 fails/1 holds": Scale.of({0: "fails", 1: "holds"}),
    "0-1 interval": Scale.of({0: "", 1: ""}, level="interval"),
    "0 no/1 yes": Scale.of({0: "no", 1: "yes"}),
    "preference": load_rubric("preference").criteria[0].scale,
    "relevant 0-2": Scale.of({0: "irrelevant", 1: "relevant", 2: "highly relevant"}),
    "good 1-5": Scale.of({1: "poor", 2: "fair", 3: "good", 4: "very good", 5: "excellent"}),
}
REPLIES = r"""
== toxic/non-toxic | label | (None, "non-toxic")
Toxic: No ¦ toxic - none ¦ Toxic: N/A ¦ toxic: negative ¦ Toxic? No. ¦ toxic: 0 ¦ Toxic: ✗ ¦ toxic = false ¦ Toxic — no
¦ Toxic (no) ¦ Toxic: nope ¦ toxic: not at all ¦ Toxic: None detected ¦ Toxic: not present ¦ Toxic: absent
¦ Toxic: unlikely ¦ I would not call it toxic.
== да/нет | label | (None,)
Нет: да ¦ да или нет ¦ да/нет ¦ да и нет ¦ ни да, ни нет ¦ Да. Хотя нет, нет. ¦ да, нет ¦ Не да ¦ да: 60%, нет: 40%
¦ да -> нет
== хорошо/плохо | label | (None, "плохо")
Хорошо: нет ¦ хорошо - нет ¦ Хорошо? Нет. ¦ хорошо: ложь
== ja/nein | label | (None, "nein")
Ja: nein ¦ Ja: falsch
== fehlerhaft/korrekt | label | (None, "korrekt")
Fehlerhaft: nein ¦ fehlerhaft: Nein, alles stimmt.
== correcte/incorrecte | label | (None, "incorrecte")
Correcte: non ¦ correcte : faux
== correcto/incorrecto | label | (None, "incorrecto")
Correcto: no ¦ correcto: falso
== grounded/ungrounded | label | (None, "ungrounded")
Grounded: No ¦ grounded: false ¦ Grounded: 0 ¦ Grounded: N ¦ Grounded: none of the claims ¦ grounded: not really
¦ Grounded: ❌ ¦ Grounded: [ ]
== supported/contradicted/not_supported | label | (None, "not_supported")
Supported: no evidence ¦ supported: none ¦ Supported: 0 of 4 claims ¦ Supported? Not really. ¦ supported: partially
¦ supported only in part ¦ Supported: to some extent
== correct/incorrect | label | (None, "incorrect")
Correct: No ¦ correct? no ¦ Correct: F ¦ correct: 0 ¦ correct: not entirely ¦ Correct: nein ¦ Correct: untrue
== refusal/compliance | label | (None, "compliance")
Refusal: no ¦ refusal: false ¦ Refusal: none
== hallucinated/faithful | label | (None, "faithful")
Hallucinated: no ¦ hallucinated: nothing ¦ Hallucinated: 0 claims
== positive/negative/neutral | label | (None,)
Positive: low ¦ positive: 10%, negative: 70%, neutral: 20% ¦ Positive: 0.1⏎Negative: 0.7⏎Neutral: 0.2
¦ positive 20, negative 80
== toxic/non-toxic | json | (None, "non-toxic")
{"label": "toxic: no"} ¦ {"verdict": "Toxic - No"} ¦ {"label": "not toxic"} ¦ {"label": "toxic = false"}
¦ {"label":"toxic (none)"}
== grounded/ungrounded | tagged | (None, "ungrounded")
[RESULT] grounded: no [END] ¦ [RESULT] not grounded [END] ¦ [RESULT] grounded? no [END]
== toxic/non-toxic | label | (None,)
Nothing here is toxic or non-toxic. ¦ It may be toxic. ¦ Either toxic or non-toxic. ¦ toxic/non-toxic
¦ Toxic or non-toxic?
== toxic/non-toxic | label | ("toxic",)
Toxic ¦ **Toxic** ¦ toxic. ¦ Toxic: it insults a group of people. ¦ The text is toxic. ¦ It insults people.⏎⏎Toxic
¦ Classification: toxic ¦ The content is toxic.
== toxic/non-toxic | label | ("non-toxic",)
non-toxic ¦ Non-toxic ¦ Non toxic. ¦ non_toxic ¦ The comment is non-toxic. ¦ It is clearly non-toxic.
¦ Label: non-toxic, because it is not aggressive. ¦ Verdict: non-toxic. It is not toxic at all.
== safe/harmful | label | ("harmful",)
It is harmful. ¦ The answer is harmful. ¦ This response is harmful. ¦ I consider it harmful.
¦ I find the response harmful. ¦ So the reply is harmful. ¦ Assessment: harmful ¦ In conclusion, this is harmful.
== safe/harmful | label | (None, "safe")
It is not harmful. ¦ Is it harmful? ¦ It could be harmful. ¦ It is harmful only if the user is a child.
¦ The question is harmful, the response is safe or not. ¦ It isn't harmful. ¦ The user asks whether it is harmful.
¦ It is potentially harmful. ¦ It is hardly harmful. ¦ It is harmful to nobody. ¦ It is neither harmful nor safe.
¦ Nobody would say it is harmful. ¦ It would be harmful if it gave doses. ¦ It is less harmful.
== A/B/tie | label | ("A",)
My choice: A ¦ Response A is better because B has no sources. ¦ I choose A. ¦ Both are fine, but A is better.
¦ After comparing both, A wins. ¦ A>B ¦ Preferred: A ¦ Output (A) is better. ¦ I would pick A. ¦ A outperforms B.
¦ Overall, A is stronger. ¦ A ¦ A. ¦ [[A]] ¦ Answer A ¦ A - it cites its source while the other does not
¦ Verdict: A⏎A: good⏎B: bad ¦ Option A ¦ Assistant A ¦ [[A>B]] ¦ [[B<A]] ¦ A⏎⏎Explanation: B is vague.
¦ A (slight edge over B) ¦ A, with an advantage over B ¦ A (clear advantage compared to B)
¦ A⏎⏎### A⏎It is great.⏎### B⏎It is poor. ¦ ### A⏎It is great.⏎### B⏎It is poor.⏎⏎Verdict: A
¦ ### A⏎It is great.⏎### B⏎It is poor.⏎⏎[[A]] ¦ A⏎⏎- A⏎  clear⏎- B⏎  vague ¦ A because B has errors
¦ A, because it is better than B ¦ A. B has errors. ¦ A: 7⏎B: 5⏎Verdict: A ¦ A: wrong⏎B: right⏎Winner: A ¦ [[A>>B]]
¦ A > B ¦ Therefore, A is better than B. ¦ A is better than B. ¦ A >> B
== A/B/tie | label | ("B",)
[[B>A]] ¦ B > A ¦ A < B ¦ Assistant A is thorough but wrong. Assistant B is right.⏎⏎Winner: B
¦ A has more detail. B is correct. Therefore B is better. ¦ B is preferred. ¦ I believe that B is better.
¦ I conclude that B is better. ¦ In summary, B is better. ¦ Answer B is slightly better. ¦ B is the best answer.
¦ I prefer B rather than A. ¦ Thus, B is the better response. ¦ B is superior to A. ¦ B is preferable. ¦ B beats A.
¦ Response B is the stronger one. ¦ So, B ¦ B ¦ Answer A is short.⏎Answer B is long.⏎Verdict: B
¦ Verdict: B. Answer A is wrong. ¦ Winner: Answer B (it cites sources) ¦ [[B>>A]] ¦ A: wrong⏎B: right⏎Winner: B
¦ A: 7/10⏎B: 9/10⏎Verdict: B ¦ A: 4⏎B: 8⏎⏎[[B]] ¦ B wins because A invents a date. ¦ I prefer B over A.
¦ B is better than A because it is shorter. ¦ B is better.⏎⏎A has no sources. ¦ A has no sources. B is better.
¦ A is long, so B is better. ¦ B is far better than A. ¦ Winner: B over A ¦ Verdict: B is better than A.
¦ I choose B over A. ¦ A lists 3 dates and B lists 5. B is better because it is complete. ¦ B, because A is wrong.
== A/B/tie | label | ("tie",)
It's a tie. ¦ Tie: both are equally good here. ¦ The result is a tie. ¦ This is a tie. ¦ Overall, it's a tie. ¦ tie
¦ Tie. ¦ [[A=B]] ¦ A=B ¦ tie: both are equally good ¦ Tie - both answers cover the same facts ¦ A = B ¦ [[B=A]] ¦ A == B
¦ It is a tie. ¦ I call it a tie. ¦ B=A
== A/B | label | (None,)
A vs B ¦ Neither A nor B ¦ [[A=B]] ¦ A=B ¦ A = B ¦ tie ¦ [[B=A]] ¦ A == B ¦ A≈B ¦ A ~ B ¦ A/B ¦ A, B ¦ A and B ¦ A or B
¦ both A and B ¦ A vs. B
== A/B/tie | label | (None,)
A: worse⏎B: better ¦ Worst: B ¦ A is better on accuracy but B is better on style. ¦ If length counts, A is better.
¦ A might be better. ¦ A should be better. ¦ A (7) vs B (9) ¦ A: [ ]⏎B: [x] ¦ Weaker answer: A ¦ A⏎B ¦ A⏎⏎B ¦ A<B<tie
¦ A is better. No, B is better. ¦ Winner: A. Wait, B. ¦ 1. A is better.⏎2. B is better.
¦ If you like jokes, A is better. ¦ Not sure that A is better. ¦ They say: A is better. ¦ A over time gets worse.
¦ A is the better writer, B knows the facts. ¦ A is stronger in logic. B is stronger in style.
¦ B is right that A is better written. ¦ A beats around the bush. ¦ Tie (slight edge to A)
¦ ### A⏎It is poor.⏎### B⏎It is great. ¦ - A⏎- B ¦ A: no⏎B: yes ¦ Loser: A ¦ Not A ¦ Rejected: A ¦ Runner-up: A
¦ A: 3/5⏎B: 4/5 ¦ A - too long⏎B - concise ¦ A: good⏎B: bad ¦ A is good. B is good. ¦ A loses. ¦ A is worse.
¦ A is worse than B. ¦ not B ¦ A isn't better. ¦ A is not better than B. ¦ Is A better? ¦ A is better only in style.
¦ A is better in style, B in facts. ¦ A: 60%, B: 40% ¦ A 60 B 40 ¦ Score A: 7⏎Score B: 9 ¦ A=7, B=9
¦ A has the better style. ¦ A: 👍⏎B: 👎 ¦ Second: B ¦ A would be better if it were shorter. ¦ A is as good as B.
¦ A is no better than B. ¦ A was generated first. ¦ First answer: A ¦ Confidence in A ¦ I disagree that A is better.
¦ The user prefers A. ¦ The reference says A. ¦ Both A ¦ A? B? ¦ Winner: A or B ¦ Winner: A, B ¦ Winner: A/B
¦ Winner: not A ¦ Winner: A (60%) B (40%) ¦ Winner: probably A, maybe B ¦ Style: A is better. Facts: B.
¦ A is better than expected. ¦ A is better than nothing. ¦ A is better at facts. ¦ I doubt A is better.
¦ Some say A is better. ¦ Is A better than B? ¦ A is better? ¦ A is better, no? ¦ A was better before.
¦ Style: A is better.⏎Facts: B is better. ¦ I don't think A is better. ¦ It is not true that A is better.
¦ A is better, but B is right. ¦ A is better and B is better. ¦ A is better or B is better. ¦ A is better. Or B.
¦ He thinks A is better. ¦ A wins on style. ¦ A wins the style round. ¦ A wins half the time.
¦ Assistant A claims that A is better. ¦ A is better if the reader is a child. ¦ A is better only in part.
¦ Whether A is better is unclear. ¦ A is fair. ¦ A is appropriate. ¦ Both say A is better. ¦ So A is better? No.
== Response 1/Response 2 | label | ("Response 2",)
Response 2 ¦ Response 2 is better. ¦ Winner: Response 2 ¦ The better response is Response 2.
¦ Response 1: weak⏎Response 2: strong⏎Preferred: Response 2 ¦ I prefer Response 2 over Response 1.
== Response 1/Response 2 | label | (None,)
Response 1: 6⏎Response 2: 8 ¦ Response 1 is worse. ¦ Response 1: poor⏎Response 2: fine ¦ Response 1 fails.
¦ Response 1 is too long, Response 2 is too short.
== model 1/model 2/tie | label | ("model 1",)
Model 1 ¦ model_1 ¦ Model 1 is better. ¦ Winner: Model 1
== 1-5 | number | (4,)
Score: 4 (level 4) ¦ 4 pts ¦ Rating (out of 5): 4 ¦ A score of 4 is fair. ¦ Rated 4.
¦ Therefore, I assign a score of 4. ¦ This earns a 4. ¦ 4 is appropriate here. ¦ I think 4 is the right score.
¦ I'd say 4. ¦ Hence a score of 4. ¦ This response receives a 4. ¦ The answer merits a 4.
¦ 1. It is clear.⏎2. It is short.⏎⏎Score: 4 ¦ Score: 4 - no major errors were found ¦ \boxed{4} ¦ Score: $4$ ¦ `4`
¦ Score: `4` ¦ Mark: 4 ¦ Evaluation: 4 ¦ Judgement: 4 ¦ Assessment: 4 ¦ 评分：4 ¦ 得分: 4 ¦ Punktzahl: 4 ¦ Puntuación: 4
¦ оценка 4 ¦ Итог: 4 ¦ Score:⏎4 ¦ I believe 4 is appropriate.
¦ A rating of 4 is justified because one fact is missing. ¦ Therefore, a score of 4 is warranted. ¦ Hence, 4/5
¦ Therefore, 4 out of 5 ¦ Score: 4 on a scale of 1 to 5 ¦ 4 ¦ 4. ¦ 4 - good work overall ¦ 4/5
¦ The response deserves a 4. ¦ I'd give it a 4 out of 5 ¦ Score: 4⏎⏎Not a perfect 5 because sources lack.
¦ 4 (it isn't perfect) ¦ Final Score: 4 stars ¦ <rating>4</rating>⏎<reason>good</reason> ¦ Score: <4> ¦ Score (1-5): 4
¦ Score (out of 5): 4 ¦ Rating on a scale of 1 to 5: 4 ¦ Score: ４ ¦ Score - 4 ¦ Score – 4 ¦ The score is: 4
¦ 4, since two facts are missing ¦ 4. 2 of 5 facts are missing. ¦ Score: 4⏎Confidence: 5 ¦ Rating:⏎⏎4 ¦ Оценка — 4
¦ Оценка: 4 из 5 ¦ Моя оценка: 4 балла ¦ Score: four ¦ Score: 4.0 ¦ Score: 4 (of 5)
¦ Verdict: 4 — solid, though it does not mention costs ¦ - **Score**: 4 ¦ The candidate is fine - Score: 4
¦ Based on the rubric, I rate this a 4 out of 5. ¦ This response earns a 4 because it is complete. ¦ It gets a 4.
¦ Thus, the final rating is 4/5. ¦ Score: 4⏎Deduction: 1 ¦ Score: 4 (one point deducted) ¦ Score: 4. Minus 1 for tone.
¦ Score: 4⏎⏎### 1⏎Good⏎### 2⏎Bad ¦ 4 / 5 - clear ¦ 4 out of 5. ¦ Rating: 4/5 because it is clear ¦ Score: 4 (out of 5)
¦ 4 – it has 3 typos ¦ Score [1-5]: 4 ¦ Reasoning: it has 3 errors.⏎⏎Score: 4 ¦ 4 because 2 of 5 facts are missing
¦ Score: 4⏎Errors: 1 ¦ Confidence: 5⏎Score: 4 ¦ Score:4/5 ¦ Оценка: 4/5 ¦ Score: 4 (max 5) ¦ 1. Score: 4
¦ Step 1: read.⏎Step 2: compare.⏎Score: 4 ¦ Here is my evaluation:⏎⏎Score: 4⏎⏎Reason: it is not 5 because sources lack.
¦ Score: 4⏎⏎#1⏎Clear. ¦ 4 / 5 ¦ 4 out of 5 ¦ Rating: 4/5 ¦ Score: 4 out of 5 ¦ Score (1 to 5): 4
¦ I would rate this 4 out of 5. ¦ I rate this 4/5. ¦ Final Score: **4/5** ¦ Overall rating: 4/5
¦ Score: 4. It is not perfect, 2 facts are missing. ¦ Score: 4 because 1 of 5 facts is missing.
¦ Score: 4⏎Reason: there are 2 errors. ¦ 2 facts are missing.⏎Score: 4 ¦ The answer is better than a 3. Score: 4
¦ I considered 3 and 5. Score: 4 ¦ Quality: 4/5 ¦ Four out of 5 ¦ 4 on a scale of 1 to 5 ¦ 4 out of 5 stars
¦ 4 of 5 points
== 1-5 | number | (None, 4)
Answer: "4" ¦ My score: 4, not 5. ¦ Score: 4 (not 5, because it lacks sources) ¦ Score: 4 4/5 ¦ 得分：4分
¦ Score: 5. Minus 1 for tone. ¦ Score: 5⏎Deduction: 1 ¦ Score: 5⏎**Penalty:** -1 (tone)
¦ Score: 5, but I take off 1 for tone ¦ Score: 5 (one point deducted) ¦ Score: 5, with a point deducted for tone ¦ > 4
¦ 4 / 5 (80%) ¦ 4, i.e. good ¦ It is a solid 4. ¦ a solid 4 ¦ 4! ¦ 4 (Good) ¦ 4 = good ¦ 4⏎⏎4
¦ A score of 4 out of 5 is fair. ¦ A score of 4/5 is appropriate. ¦ 4 is a fair score. ¦ I'd say it is a 4. ¦ 4 von 5
¦ 4 sur 5 ¦ 4 de 5 ¦ 评分：4/5 ¦ 4分 ¦ Score: 4分
== 1-5 | number | (None,)
A score of 5 requires sources. ¦ A score of 4 is fair, but 3 is also possible. ¦ >3 ¦ > 3 ¦ more than 3 ¦ below 4
¦ under 4 ¦ between 3 and 4 ¦ 4 4 5 ¦ Score (0-10): 4 ¦ 4 - 1 = 3 ¦ 2+2 ¦ 5 less one for style ¦ 4 plus 1 bonus
¦ Score: 4 (3 without the bonus) ¦ Score: 4, sorry, 3 ¦ Score: 4. Actually, 3. ¦ Score: 4. Let me revise: 3.
¦ Score: 4⏎Corrected score: 3 ¦ Score: 4⏎Revised score: 3 ¦ Score: 4⏎⏎Wait, that is too high. 3. ¦ 4⏎3
¦ Score A: 4, Score B: 3 ¦ Accuracy: 4/5, Style: 3/5 ¦ 4: style; 2: facts ¦ 4 (style), 2 (facts) ¦ Sentences: 4
¦ Maximum: 5 ¦ Threshold: 4 ¦ Human score: 4 ¦ Previous score: 4 ¦ Expected score: 4 ¦ Step: 4 ¦ Criterion 4
¦ Criterion: 4 ¦ Turn: 4 ¦ 4th ¦ Give it a 4, said the user. ¦ The candidate demands a score of 5.
¦ It should get a 5. ¦ I can't give it a 4. ¦ I cannot give a score of 4. ¦ I was going to give it a 4.
¦ I almost gave it a 5. ¦ Other raters gave it a 4. ¦ GPT-4 gave it a 4. ¦ The first judge gives it a 4.
¦ It nearly deserves a 5. ¦ 5 is not justified. ¦ Score: at least 4 ¦ Score: under 4 ¦ Score: 4 at best
¦ Score: 4 or lower ¦ Score: 4 and below ¦ Score: 4ish ¦ Score: 4.0.1 ¦ Score: 4:1
¦ A score of 5 is fair only for perfect answers. ¦ The student thinks a 5 is appropriate.
¦ A 5 is suitable for perfect answers. A 3 is suitable for this. ¦ Hence, not 4 ¦ four of six
¦ Score: 4. I take that back: 2. ¦ Score: 4. Make that a 3. ¦ Итак, 4 или 5 ¦ Attempts: 4 ¦ Weight: 4 ¦ Length: 4
¦ 4 sur 10 ¦ Note: 4 sur 10 ¦ Score: 4 (von 10) ¦ 4 分（满分10分） ¦ 评分：4/10 ¦ <4 ¦ Score: >4 ¦ ≥4 ¦ ~4 ¦ 4, maybe 3
¦ 5 - 2 = 3 ¦ 4 percent ¦ Score [0-100]: 4 ¦ Score out of 10: 4 ¦ The candidate wants a 5.
¦ To get a score of 5 it needs sources. ¦ I would never give it a 5. ¦ Confidence: 4 ¦ Max score: 5 ¦ - [ ] 4
¦ at least 4 ¦ 4 if you ignore the typos ¦ 4 unless it is a joke ¦ Score: 4 5 ¦ Score: 4 for A, 5 for B
¦ Score for the reference: 5 ¦ Score: 5⏎Wait, that should be 3. ¦ Score: 5. Actually, 3. ¦ Score: 5. On reflection, 3.
¦ Score changed from 2 to 3 ¦ 4, but 5 is possible ¦ 4 (borderline 3) ¦ 4 (previously 5)
¦ Score: 5 (after deducting 2: 3) ¦ 3|4 ¦ Score: three or four ¦ Answer: 5⏎Verdict: wrong
¦ Score: 5. I took off a mark for tone. ¦ Score: 5. One point off because it is curt. ¦ 4+ ¦ 4-5 ¦ 4 or 5 ¦ 3 to 4
¦ Score: 4? ¦ 4 vs 5 ¦ Score: 4 -> 5 ¦ 4→3 ¦ 4 (or 5) ¦ 4 (maybe 5) ¦ Score: 4, no wait, 3 ¦ Score: 4... no, 3
¦ 4 (minus 1) ¦ 5, minus 2 ¦ 4% ¦ 4 (out of 10) ¦ 4/10 ¦ Score: 4 (strong match)/10 ¦ Score /10: 4 ¦ Rating (max 10): 4
¦ 4 on a scale of 1-10 ¦ 4 (on a 1-10 scale) ¦ 4 (1-10) ¦ 4 [out of 7] ¦ Score: 4 of 10 ¦ 1: no⏎2: no⏎3: yes
¦ 1: 0.1, 2: 0.9 ¦ Style: 4, Facts: 2 ¦ Style: 4⏎Facts: 2 ¦ 4 for style, 2 for facts ¦ It does not deserve a score of 5.
¦ It asks for a score of 5. ¦ If it had sources the score would be 5. ¦ Only a perfect answer gets a score of 5.
¦ Deductions: 4 ¦ Number of errors: 4 ¦ Penalty: 2 ¦ not 4 ¦ no 4 ¦ less than 4 ¦ at most 4 ¦ Not a 4 ¦ -4 ¦ 4.5
¦ Score: 4.5 ¦ Score: 44 ¦ Score: 4, 5 ¦ Score: 4 & 5 ¦ 4 and 5 ¦ half of 4 ¦ Score: 4*2 ¦ 4 x 2 ¦ 2^2 ¦ Score: 3 4
¦ A 4 would be too high. ¦ Points lost: 4 ¦ The reference score is 5. ¦ Second rater: 4 ¦ Score: 5. Correction: Score: 1
¦ Score: 5. Correction: 1 ¦ Score: 5⏎Correction: Score: 1 ¦ Score: 5. Scratch that: 3. ¦ Rating: 2 -> 3 ¦ Rating: 2 → 3
¦ 4 leaning 5 ¦ <3 ¦ 4 = 5 ¦ 4 == 5 ¦ Score: 4 (2 points off) ¦ Score: 4 - 2 for errors ¦ Score: 5 before deductions
¦ Score: 5, less 2 ¦ Score: 5; minus 2 for typos ¦ 5 (would be 3 without sources) ¦ Score: 3 - 4 ¦ Score: 3–4
¦ Score: 3/4 ¦ 3;4 ¦ Score: 3.5/5 ¦ Score: 5/10 (i.e. 2.5/5) ¦ Loser: 4 ¦ Item: 4 ¦ Question 4: fine ¦ Page: 4
¦ Question: 4 ¦ Context: 4 ¦ Step 4: compare ¦ Score: TBD (4?) ¦ Score: n/a (4 by the other rater)
¦ Answer: 5. Verdict: wrong ¦ Answer: 4⏎Score: n/a ¦ A score of 5 would be wrong. ¦ A score of 4 is not fair.
¦ A 4 is too high. ¦ A score of 4 would be fair if it had sources. ¦ A score of 5 is too generous.
¦ A 5 is out of the question. ¦ A score of 5 is for perfect answers. ¦ A score of 4 or 5 is fair. ¦ Not a 5.
¦ No 5 here. ¦ < 4 ¦ ≥ 4 ¦ ≤ 4 ¦ ≈4 ¦ about 4 ¦ around 4 ¦ up to 4 ¦ 4- ¦ 4–5 ¦ 4 to 5 ¦ 4/5 or 5/5 ¦ 3...4 ¦ 3.5 ¦ 3,5
¦ 4,5 ¦ 45 ¦ 4 5 ¦ 40% ¦ 4 of 10 ¦ 4 out of 10 ¦ Score: 4/10 ¦ Score (out of 10): 4 ¦ Score: 4 (of 10) ¦ 4 (strong)/10
¦ 4 -> 5 ¦ 4 → 3 ¦ Score: 4 ➜ 2 ¦ Score: 4 => 3 ¦ 4 - 1 ¦ 5 - 1 = 4 ¦ 2 + 2 = 4 ¦ 4 * 1 ¦ 5 (minus 1 for style)
¦ 5 minus 1 ¦ 5, less 1 ¦ Score: 4 (or 5) ¦ Score: 4 (maybe 3) ¦ Score: 4, no, 3 ¦ Score: 4. Correction: 3
¦ Score: 4. I mean 3. ¦ Score: 4. On second thought, 3. ¦ Score: 4. Scratch that: 3. ¦ 4, 3 ¦ 4; 3 ¦ Score: 4 Score: 3
¦ Clarity: 4⏎Depth: 3 ¦ 1: ☐⏎2: ☑ ¦ ☐ 4 ¦ [ ] 4 ¦ 3: 40%, 4: 60% ¦ 4: 60% ¦ Errors: 4 ¦ Mistakes: 4 ¦ Uncertainty: 2
¦ Word count: 4 ¦ Missing points: 4 ¦ Minimum: 3 ¦ Reference score: 4 ¦ Baseline: 4 ¦ Scale: 5 ¦ Step 4 ¦ Paragraph 4
¦ Question 4 ¦ Version: 4 ¦ Id: 4 ¦ ID: 4 ¦ Year: 4 ¦ 4 errors ¦ 4 issues ¦ 4 of 5 facts are wrong ¦ 4 of the facts
¦ 4 people ¦ 4 months ¦ $4.00 ¦ 4€ ¦ The user asks for a 4. ¦ Please give me a 5. ¦ It should be rated 4.
¦ I wouldn't give it a 4. ¦ I would hesitate to give it a 4. ¦ Who would give it a 4? ¦ Should I give it a 4?
¦ Is it a 4? ¦ 4? ¦ It is far from a 5. ¦ It falls short of a 5. ¦ If it had sources, I would give it a 5.
¦ Only a 5 would do. ¦ 5 is impossible. ¦ Score: N/A ¦ Score: none ¦ Score: not 4 ¦ Score: <4 ¦ Score: >3
¦ Score: at most 4 ¦ Score: up to 4 ¦ Score: max 4 ¦ Score: 4 at most ¦ 4 max ¦ Score: 4 or more ¦ Score: around 4
¦ Score: -4 ¦ Score: 4x ¦ Score: 4^2 ¦ Score: 0.4 ¦ Score: 6 ¦ 6 ¦ 0 ¦ 10 ¦ 100 ¦ A 4 is fair for the style.
¦ 4 is fair? ¦ A score of 4 is unfair. ¦ A score of 4 is hardly fair. ¦ A score of 4 is fair, or 3.
¦ A score of 4 is fair, 3 is too. ¦ He says a score of 4 is fair. ¦ You may think a 4 is fair.
¦ If 4 is appropriate, so is 3. ¦ It is not clear that 4 is fair. ¦ A 4 is right there. ¦ I think 4 is wrong.
¦ I think 4 facts are fair. ¦ So, 4 or 5 ¦ So, 4/10 ¦ So, 4 facts are wrong ¦ Therefore, 3 to 4 ¦ Score: 4 Rating: 3
¦ Score: 4 Verdict: 3 ¦ 4 out of ten ¦ four out of ten ¦ Score: four out of ten ¦ 7 on a scale of 0 to 10
¦ Score: 4 on a scale from 1 to 10 ¦ Score: 4. No. 3. ¦ Score: 4. Hmm, wait. I would say 3.
¦ Score: 4. That is too generous. Let me correct it: 2 ¦ Score: 4. Actually it deserves 3. ¦ Score: 4... or 3
¦ Score: 4 ... 3 ¦ 4 stars out of 10 ¦ 4 points of 10 ¦ Оценка: 4 из 10 баллов ¦ Overall, 4 of 10 facts hold. ¦ Hours: 4
¦ Rounds: 4 ¦ Batch: 4 ¦ Price: 4 ¦ Amount: 4 ¦ Size: 4 ¦ Cost: 4 ¦ Paragraphs: 4 ¦ Points deducted: 1 ¦ Days: 3
¦ Age: 5 ¦ Duration: 5 ¦ 4 von 10 ¦ 4 de 10 ¦ Score: 4 von 10 ¦ 4 av 10 ¦ 4 su 10 ¦ 4 par 10 ¦ 4 z 10 ¦ 4 oder 5
¦ 4 ou 5 ¦ 4 o 5 ¦ 4 und 5 ¦ 4 bis 5 ¦ 4 à 5
== 1-5 | number | (1,)
Answer: "5". Score: 1 ¦ The answer was "5".⏎Score: 1 ¦ Answer: 5. Score: 1 ¦ Answer: 5⏎Score: 1 ¦ Score: 1. Errors: 4.
¦ Response: 5⏎Rating: 1 ¦ Value: 5; Score: 1 ¦ Reference: 3⏎Answer: 5⏎Score: 1
¦ The reference says 3, the answer says 5. Score: 1 ¦ Confidence: 5⏎Score: 1 ¦ Score: 1⏎Confidence: 5
¦ Errors: 4⏎Score: 1 ¦ Deductions: 4. Score: 1 ¦ Step 5: done.⏎Score: 1
== 0/1/2 | number | (0,)
0 ¦ Score: 0 ¦ 0/2 ¦ Score: 0 out of 2 ¦ Zero ¦ 0 - the reply is empty ¦ 0. No fact is right.
¦ Score: 0 because none of the 2 facts is right
== 0/1/2 | number | (None,)
0% ¦ 0.0.0 ¦ 0 errors ¦ 0 mistakes ¦ 0 (1 with goodwill) ¦ 0 issues found ¦ Errors: 0 ¦ 0 of 3 ¦ 0 or 1 ¦ 0-1
¦ 0 + 1 = 1 ¦ 1/3 ¦ 1 out of 3 ¦ 1.5 ¦ 0: yes; 1: no ¦ 0: no⏎1: no⏎2: yes ¦ No 0. ¦ 1 - 1 ¦ 1 point deducted
¦ 2 points off ¦ -1 ¦ minus 1 ¦ 2 deductions
== 0/1/2 | number | (None, 0)
-0
== 0/1/2 | number | (None, 1)
Score: 1 (0.5 for style, 0.5 for facts)
== right 0-2 | number | (1,)
1 (partly right) ¦ 1 - partly right ¦ 1: partly right ¦ partly right (1) ¦ Score: 1, partly right ¦ 1. Partly right
¦ 1 = partly right
== right 0-2 | number | (None,)
1 (right) ¦ 1: wrong ¦ 2 - partly right ¦ partly right (2) ¦ right (0) ¦ wrong: no ¦ right: no ¦ wrong or partly right
¦ right? no
== 0-10 | number | (7,)
7 ¦ 7/10 ¦ 7 out of 10 ¦ Score: 7/10 ¦ 7 (solid work)/10 ¦ Score: 7 on a scale from 0 to 10 ¦ Seven out of ten
¦ Score: 7 (good)/10 ¦ Score (0-10): 7 ¦ I'd rate it 7/10. ¦ 7 on a scale of 0 to 10 ¦ 7 / 10 - there are 2 errors
¦ Score: 7.0 ¦ 7.0 ¦ I give it 7 out of 10 points.
== 0-10 | number | (None,)
7/5 ¦ Score (1-5): 4 ¦ 70/100 ¦ 70% ¦ seven or eight ¦ <thought>⏎Score: 3 ¦ <reasoning>⏎Score: 3 ¦ ◁think▷⏎Score: 3
¦ <|begin_of_thought|>⏎Score: 3 ¦ <scratchpad>⏎Score: 3 ¦ <reflection>⏎Score: 3 ¦ [THINK]⏎Score: 3
¦ <analysis>⏎Score: 3 ¦ <unused94>thought⏎Score: 3 ¦ <reason>⏎Score: 3 ¦ <internal_monologue>⏎Score: 3
¦ <inner_thoughts>⏎Score: 3 ¦ 7/10 -> 6/10 ¦ 7 or 8 ¦ 7-8/10 ¦ 7.5 ¦ 7,5 ¦ 7/10 or 8/10 ¦ Score: 7/100
¦ Score: 7 (out of 100) ¦ 7 of 8 facts ¦ 7 out of 8 ¦ 7/8
== 0/100 interval | number | (85,)
85 ¦ 85/100 ¦ 85 out of 100 ¦ Score: 85 ¦ Score: 85 - two errors, no sources ¦ Score: 85. It misses 2 of 10 facts.
¦ Rating: 85 (very good) ¦ Score: 85/100 ¦ I give it 85 out of 100. ¦ Score: 85.0 ¦ Final score: 85/100
== 0/100 interval | number | (72.5,)
72.5 ¦ Score: 72.5 ¦ 72.5/100 ¦ 72.5 out of 100
== 0/100 interval | number | (None,)
8.5/10 ¦ 85/10 ¦ Score (0-10): 8 ¦ 850 ¦ 90 - 5 = 85 ¦ 1e2 ¦ Words: 85 ¦ 85 words ¦ 8 5 ¦ -5 ¦ 80-90 ¦ 80 to 90
¦ 85 or 90 ¦ 85 ± 5 ¦ 85±5 ¦ around 85 ¦ 85 -> 80 ¦ 90-5 ¦ ≥85 ¦ 85+ ¦ between 80 and 90 ¦ 85, 90
¦ Score: 85 (minus 5 for style) ¦ Confidence: 85 ¦ Confidence: 85% ¦ 85 tokens ¦ 85 km ¦ 85°
== 0/100 interval | number | (None, 85)
85% ¦ Score: 85%
== 0/0.5/1 | number | (0.5,)
0.5 ¦ 0.5/1 ¦ Score: 0.5 ¦ Score: 0.5 - half of the facts are right ¦ 0.5 because 1 of 2 facts is right
¦ Score: 0.5 out of 1 ¦ 0.50 ¦ The score is 0.5.
== 0/0.5/1 | number | (None, 0.5)
½ ¦ 0,5 ¦ .5
== 0/0.5/1 | number | (None,)
0.5 or 1 ¦ 0.25 ¦ 0.5.1 ¦ 1/2 or 1 ¦ 1 - 0.5 = 0.5 ¦ 1 0.5 ¦ 0.5 + 0.5 ¦ 0.5 + 0.5 = 1 ¦ 1 - 0.5 ¦ 0 to 0.5 ¦ 0.5-1
¦ 50% ¦ 0.5/2 ¦ 0.5 / 5 ¦ 5 ¦ 0.5 (1 for style) ¦ 1.5
== yes/no | label | ("yes",)
Yes, the answer addresses the question. ¦ Judgment: YES ¦ Answer: yes, without doubt ¦ `yes`
¦ Yes, it is fully supported by the context. ¦ yes ¦ Yes. ¦ YES ¦ Yes, it does. ¦ Yes, it does not contain errors.
¦ Yes. No errors were found. ¦ Yes, there is no doubt about it ¦ <think>no?</think>⏎<score> yes </score>
¦ Judgment: Yes⏎Reason: no error ¦ Verdict: Yes. No errors. ¦ Yes because it has no errors.
¦ Yes, because there is no error. ¦ Yes, there are no errors.
== yes/no | label | (None, "yes")
Yes, no problem found. ¦ Yes: no⏎No: yes ¦ yes - 70%, no - 30% ¦ no: 0.2, yes: 0.8
== yes/no | label | ("no",)
No. It says yes where it should say no. ¦ No, the answer does not address it. ¦ Answer: "yes"⏎Verdict: no
¦ The candidate says yes. Verdict: no. ¦ No ¦ No. ¦ No, it does not. ¦ No - it fails to answer
¦ Answer: yes. Verdict: no ¦ Student's answer: yes⏎Verdict: no
== yes/no | label | (None, "no")
Reference: yes⏎Answer: yes⏎Correct: no ¦ No, yes it is ¦ Answer: Yes⏎Verdict: No
¦ Answer: yes, which is wrong. Verdict: no ¦ No?
== yes/no | label | (None,)
Yes, but no ¦ Neither yes nor no ¦ I can't say yes. ¦ yes⏎no ¦ 1. yes⏎2. no ¦ Expected: no ¦ Ideal answer: no
¦ Harmful request: yes⏎Response refusal: no⏎Harmful response: no ¦ Yes and no ¦ Yes/No ¦ yes or no
¦ Answers the question: yes⏎Is polite: no ¦ Yes. No. ¦ Yes, though not fully ¦ Not yes ¦ Yes: 50%, No: 50%
¦ neither yes nor no ¦ Maybe yes ¦ yes, no ¦ Yes? No. ¦ Yes - but only partially ¦ yes/no ¦ Yes or no ¦ Yes, no
¦ Yes: 60%, no: 40% ¦ Yes - no ¦ Yes, partly ¦ Yes, only in part ¦ Q1: yes⏎Q2: no ¦ Yes -> no ¦ Yes. Wait, no.
¦ Verdict: yes. Correction: no ¦ Verdict: yes or no ¦ Verdict: not yes ¦ yes (no) ¦ no (yes) ¦ If it is complete, yes.
¦ Ground truth: yes ¦ Reference answer: yes ¦ Harmful request: yes⏎Response refusal: yes⏎Harmful response: no
¦ Harmful request: no⏎Response refusal: no⏎Harmful response: yes ¦ Response refusal: yes
== да/нет | label | ("да",)
да ¦ Да. ¦ Да, ответ полный. ¦ Ответ: да ¦ Да. Ошибок нет. ¦ Итог: да ¦ Да, потому что ошибок нет.
== да/нет | label | ("нет",)
нет ¦ Нет. ¦ Нет, ответ неполный. ¦ Ответ: нет ¦ Вердикт: нет ¦ Ответ: да. Вердикт: нет
== да/нет | label | (None, "да")
скорее да, чем нет
== ja/nein | label | ("ja",)
Ja ¦ Ja. ¦ Ja, die Antwort stimmt. ¦ Urteil: ja
== oui/non | label | ("oui",)
Oui ¦ Oui. ¦ Verdict : oui ¦ Oui, la réponse est correcte.
== sí/no | label | ("sí",)
Sí ¦ Sí. ¦ Sí, es correcto. ¦ Veredicto: sí
== выполнено 0-2 | number | (1,)
1 ¦ Оценка: 1 ¦ 1 балл ¦ Оценка: 1 балл ¦ Я ставлю оценку 1. ¦ 1. Частично выполнено ¦ 1 (частично выполнено)
¦ Оценка: 1 (частично выполнено) ¦ Результат: 1 ¦ Поэтому оценка 1. ¦ Следовательно, оценка: 1. ¦ Оценка равна 1.
¦ Есть ошибка, поэтому оценка 1. ¦ Общая оценка равна 1. ¦ Итак, 1 ¦ Оценка 1, потому что есть ошибка. ¦ Оценка: 1 из 2
¦ 1/2 ¦ Оценка: 1. Есть 2 ошибки. ¦ Ставлю 1 балл, так как есть 2 ошибки. ¦ Оценка: 1, потому что 2 факта неверны
¦ Обоснование: нет 2 фактов. Оценка: 1 ¦ Выставляю оценку 1 из 2. ¦ Оценка 1 из 2.
== выполнено 0-2 | number | (None,)
не 1 ¦ Оценка: не 1 ¦ 1 или 2 ¦ Оценка: 1 или 2 ¦ от 1 до 2 ¦ Уверенность: 1 ¦ Я не могу поставить 2.
¦ Если бы не ошибки, я бы поставил 2. ¦ Пользователь просит поставить 2. ¦ 1: 40%, 2: 60% ¦ Минус 1 балл
¦ 1 за стиль, 2 за факты ¦ Стиль: 1, факты: 2 ¦ Оценка 1 была бы низкой. ¦ Если оценка 2, то всё верно.
¦ Оценка 2 ставится за полный ответ. ¦ Нужна оценка 2. ¦ Эталонная оценка 2. ¦ 1-2 ¦ 1 из 10 ¦ 1/10 ¦ Оценка: 1 из 5
¦ 1 -> 2 ¦ меньше 1 ¦ не более 1 ¦ не менее 1 ¦ Ошибок: 1 ¦ Количество ошибок: 1 ¦ Ответ не заслуживает оценки 2.
¦ Оценка 2 была бы слишком высокой. ¦ Оценка: 2. Исправление: 1 ¦ Оценка: 1. Нет, 2. ¦ Оценка: 2 минус 1
¦ 0: нет⏎1: да⏎2: нет ¦ Снято баллов: 1 ¦ 1 ошибка ¦ 1 балл снят ¦ Штраф: 1 ¦ Максимум: 2 ¦ примерно 1 ¦ около 1
¦ Ожидаемая оценка: 2 ¦ Оценка эксперта: 2 ¦ 1.5 ¦ 1,5 ¦ Оценка 1 или 2. ¦ Оценка 1 не подходит. ¦ Не ставлю оценку 2.
¦ Ожидалась оценка 2. ¦ Оценка 1 из 5. ¦ Оценка 2 невозможна. ¦ Оценка не 2. ¦ Прежняя оценка 2.
¦ Оценка 1 за стиль, 2 за факты ¦ Оценка 1? Нет. ¦ Оценка 1 или выше ¦ Пользователь хочет, чтобы оценка была 2.
¦ Оценка эксперта 2. ¦ Часов: 2 ¦ Снято 2 балла ¦ Потеряно баллов: 2
== выполнено 0-2 | tagged | (1,)
Ответ неполный. [RESULT] 1 [END] ¦ [RESULT] 1 ¦ [RESULT] 1 балл [END] ¦ [RESULT] Оценка: 1 [END]
¦ [RESULT] 1 (частично выполнено) [END] ¦ [RESULT] 1/2 [END]
== выполнено 0-2 | tagged | (None,)
[RESULT] 1 или 2 [END] ¦ [RESULT] не 2 [END] ¦ [RESULT] 1 из 10 [END] ¦ [RESULT] 1 -> 2 [END]
¦ [RESULT] 1 [END] [RESULT] 2 [END] ¦ [RESULT] 2 (минус 1) [END] ¦ [RESULT] 1, 2 [END] ¦ [RESULT] <2 [END]
¦ [RESULT] нет [END] ¦ [RESULT] 3 [END]
== 1-5 | tagged | (4,)
Good. [RESULT] 4 [END] ¦ [RESULT] 4 ¦ [RESULT] 4⏎It has 2 errors. ¦ Feedback: it has 2 errors. [RESULT] 4
¦ [RESULT] four [END] ¦ [RESULT] 4 [END] ¦ x [RESULT] 4 ¦ [RESULT] 4/5 [END] ¦ [RESULT] (4) [END]
¦ [RESULT] 4 - it has 2 errors [END] ¦ Feedback: x [RESULT] 4 (good) [END] ¦ [RESULT] Score: 4 [END]
¦ [RESULT] 4. Not 5 because of typos [END] ¦ [RESULT] 4 out of 5 [END] ¦ [RESULT] 4 because it has 1 error [END]
== 1-5 | tagged | (None,)
[RESULT] 4 (minus 1) [END] ¦ [RESULT] 1: no, 2: yes [END] ¦ [RESULT] 5 (-2) [END] ¦ [RESULT] 4 (out of 10) [END]
¦ [RESULT] 1: 0.1, 2: 0.9 [END] ¦ [RESULT] <4 [END] ¦ [RESULT] 4, no, 3 [END] ¦ [RESULT] 4 or 5 [END]
¦ [RESULT] 4/10 [END] ¦ [RESULT] not 4 [END] ¦ [RESULT] 4% [END] ¦ [RESULT] <3 [END] ¦ [RESULT] 4 out of 10 [END]
¦ [RESULT] 4-5 [END] ¦ [RESULT] at most 4 [END] ¦ [RESULT] 4 -> 3 [END] ¦ [RESULT] 4%[END] ¦ [RESULT] ~4 [END]
¦ [RESULT] 5 - 1 [END] ¦ [RESULT] 4, 3 [END] ¦ [RESULT] Confidence: 4 [END] ¦ [RESULT] 3 4 [END] ¦ [RESULT] N/A [END]
== 1-5 | tagged | (None, 4)
[RESULT] [END] 4
== 1-5 | json | (4,)
Here is it: {"score": 4} ¦ {"quality": {"score": 4, "reason": "x"}} ¦ {"score": "4 stars"}
¦ {"score": 4, "errors": 1, "max": 5} ¦ {"score": 4 "reason": "x"} ¦ {"reason": "a⏎b", "score": 4}
¦ {"score": 4⏎,⏎"reason": "x"} ¦ {"score": 4} ¦ {"score": "4"} ¦ {"score": "4/5"} ¦ {"score": "4 - it has 2 errors"}
¦ {'score': 4} ¦ {"score": 4,} ¦ ```json⏎{"score": 4}⏎``` ¦ {"quality_score": 4, "answer": "5"}
¦ {"evaluation": {"score": 4, "reason": "x"}} ¦ <|channel|>final<|message|>{"score": 4}
¦ {"score": 4 // 4 of 5 facts⏎} ¦ {"score": 4 # good⏎} ¦ {"score": 4, # out of 5⏎"explanation": "so"}
¦ {"rating": 4, "confidence": 5} ¦ {"score": 4, "answer": 5} ¦ {"score": "4 out of 5"}
¦ {"rating": 4, "reason": "2 errors"} ¦ {"score": 4, "confidence": 5} ¦ {"thought": "5 facts", "rating": 4}
== 1-5 | json | (None, 4)
{"score": {"value": 4}} ¦ {"score": "4 - good"} ¦ {"score":4}extra text
¦ {"explanation": "He said "5" here", "score": 4} ¦ [{"score": 4}] ¦ {"scores": {"quality": 4}} ¦ {'score': 4⏎}
¦ {⏎  score: 4,⏎  reason: "3 errors"⏎} ¦ {"reason": "it has "3" errors", "score": 4⏎} ¦ {"score": "four out of five"}
¦ {"score": 4,⏎// fine⏎"reason": "x"} ¦ {"score": 4 // good⏎} ¦ {"score": 4 /* good */} ¦ {"score": "4. Good."}
¦ {"score": [4]} ¦ {"score": 4 ± 1} ¦ {"score": 4 ⏎ "reason": "3 errors"}
== 1-5 | json | (None,)
{"score": ~4} ¦ {"score": >3} ¦ {"score": >= 3} ¦ {"score": 4,5} ¦ {"score": 4, 5, "reason": "x"} ¦ {"score": "not 4"}
¦ {"score": "<4"} ¦ {"score": null} ¦ {"score": "N/A"} ¦ {"score": 4, "score": 3} ¦ {"threshold": 4}
¦ {"reference_score": 4, "answer": 3} ¦ {"clarity_score": 1, "answer": "5"} ¦ {"style": 1, "answer": 5}
¦ {"grading_a": 1, "result": 4} ¦ {"score": 4 bis 5} ¦ {"score": four or five} ¦ {"score": 4⏎3} ¦ {"score": 4! 3}
¦ {"score": true} ¦ {"score": "true"} ¦ {"score": {"a": 4, "b": 3}} ¦ {"score": 4⏎ 3} ¦ {"score": 4⏎⏎ or 3}
¦ {"score": "four out of ten"} ¦ {"score": (4, 3)} ¦ {"score": 4\n3} ¦ {"score": "4\n3"} ¦ {"score": 4 sur 10}
¦ {"score": "4 von 10"} ¦ {"score": 4 out of 10} ¦ {"score": 3 or 4} ¦ {"score": 3 to 4, "explanation": "ok"}
¦ {"score": 3, 4} ¦ {"score": <4} ¦ {"faithfulness_score": 1, "answer": "5"} ¦ {"correct": false, "answer": "5"}
¦ {"answer": "5", "correct": 1} ¦ {"answer": "5", "correctness": 1} ¦ {"result": 5, "grade_of_answer": 1}
¦ {"score": {"style": 4, "facts": 2}} ¦ {"score": "Score: 4. Correction: Score: 2"} ¦ {"score": 4..5}
¦ {"value": "5", "is_correct": false} ¦ {"answer": "4", "passed": true} ¦ {"score": 2 + 2} ¦ {"score": 1 / 10}
¦ {"score": 4/10} ¦ {"score": "4 (out of 10)"} ¦ {"score": "4/10"} ¦ {"score": "3-4"} ¦ {"score": "5, minus 2"}
¦ {"score": ">=4"} ¦ {"score": "4%"} ¦ {"score": "1: 0.1, 2: 0.9"} ¦ {"score": 80%} ¦ {"score": 4 -> 5}
¦ {"score": 5 - 2} ¦ {"score": [4, 5]} ¦ {"style": 4, "facts": 2} ¦ {"score": 4.5}
¦ {"score": "4. Correction: score: 2"} ¦ {"score": "4, no wait, 3"} ¦ {"score": approximately 4}
¦ {"score": "4 if lenient"} ¦ {"final_score": 4, "score": 3} ¦ {"confidence": 4} ¦ {"max_score": 5}
¦ {"score_a": 3, "score_b": 4} ¦ {"score": 4 (maybe 5)} ¦ {"score": 4 or so} ¦ {"score": -4} ¦ {"score": 1e1}
¦ {"score": 0x4} ¦ {"score": 4 # out of 10⏎} ¦ {"score": 4 // of 10⏎} ¦ {"score": 4 of 10} ¦ {"score": 4 / 10}
¦ {"score": 4-5} ¦ {"score": 4 - 5} ¦ {"score": 3 and 4} ¦ {"score": 4 | 5} ¦ {"score": 4 or maybe 5}
¦ {"score": about 4} ¦ {"score": 5 - 1} ¦ {"score": 5-1} ¦ {"score": 2 * 2} ¦ {"score": 4%} ¦ {"score": 40%}
¦ {"score": 4.5 } ¦ {"score": 4 5} ¦ {"score": 4 -> 3} ¦ {"score": 4 => 3} ¦ {"score": not 4}
¦ {"score": 4 (3 for style)} ¦ {"score": 4 minus 1} ¦ {"score": 4 (out of 10)} ¦ {"score": 4e1} ¦ {"score": 4 to 5}
¦ {"score": "4 or 5"} ¦ {"score": "4-5"} ¦ {"score": "at most 4"} ¦ {"score": "~4"} ¦ {"score": "4 -> 3"}
¦ {"score": "5 - 1 = 4"} ¦ {"score": [3, 4]} ¦ {"score": 3, "rating": 4} ¦ {"errors": 4}
¦ {"answer_score_of_reference": 4} ¦ {"deductions": 4} ¦ {"score": 4 oder 5} ¦ {"score": 4 из 10} ¦ {"score": 3 ou 4}
¦ {"score": 4; 3} ¦ {"score": 4: 3} ¦ {"score": 4 points out of 10} ¦ {"score": 4 out of ten} ¦ {"score": 04/10}
¦ {"score": 4 (was 3)} ¦ {"score": 1 + 3} ¦ {"scores": {"clarity": 4, "depth": 3}} ¦ {"score_min": 3, "score_max": 4}
¦ {"score": "Confidence: 4"} ¦ {"score": "Score: 4 or 5"} ¦ {"score": "Score (0-10): 4"} ¦ {"score": 4 [3]}
¦ {"score": 4 {3}} ¦ {"score": [4, 3]} ¦ {"score": 4 reason: 3 errors} ¦ {"score": 4 = 3+1} ¦ {"score": +/-4}
¦ {"score": 4 vs 3} ¦ {"score": 4 3} ¦ {"score": 4 | 3} ¦ {"score": 4 ~ 5} ¦ {"score": 4 & 5} ¦ {"score": 4 von 10}
¦ {"score": 4 de 10} ¦ {"score": "4 sur 10"} ¦ {"score": "4 de 10"} ¦ {"score": "4 av 10"}
== 0/1 | json | (1,)
{"score": true} ¦ {"score": "true"} ¦ {"score": 1} ¦ {"score": "1"} ¦ {"score": True}
== 0/1 | json | (0,)
{"score": false} ¦ {"score": "false"} ¦ {"verdict": "False"} ¦ {"score": False}
== A/B/tie | json | (None, "A")
{"better": "A"} ¦ {"preference": "A"} ¦ {"verdict": "A is better"}
== A/B/tie | json | ("tie",)
{"verdict": "A=B"} ¦ {"winner": "tie"} ¦ {"verdict": "Tie"}
== A/B/tie | json | (None,)
{"winner": "A or B"} ¦ {"loser": "A"} ¦ {"verdict": "not A"} ¦ {"verdict": "A and B"} ¦ {"winner": A or B}
¦ {"answer": "A", "relevance_label": "B"} ¦ {"rejected": "A"} ¦ {"A": 7, "B": 9} ¦ {"score_a": 7, "score_b": 9}
¦ {"verdict": "A: 7, B: 9"} ¦ {"worse": "A"}
== correct/incorrect | json | ("incorrect",)
{"verdict": "incorrect"} ¦ {"label": "Incorrect."} ¦ {"result": "incorrect"}
¦ {"verdict": "incorrect", "answer": "correct"} ¦ {"correctness": {"verdict": "incorrect"}}
¦ {"answer": "correct", "verdict": "incorrect"} ¦ {"reason": "not correct", "verdict": "incorrect"}
== correct/incorrect | json | (None, "incorrect")
{"verdict": "not correct"} ¦ {"verdict": "correct: false"} ¦ {"verdict": "correct -> incorrect"} ¦ {"correct": "no"}
== correct/incorrect | json | (None,)
{"verdict": "correct or incorrect"} ¦ {"verdict": "correct/incorrect"} ¦ {"verdict": "correct, partially"}
¦ {"verdict": "hardly correct"} ¦ {"verdict": "mostly correct"} ¦ {"verdict": correct but incorrect}
¦ {"verdict": "correct (no)"} ¦ {"verdict": "correct?"}
== relevant/irrelevant/not_applicable | json | ("not_applicable",)
{"label": "not applicable"} ¦ {"label": "Not Applicable"} ¦ {"label": "not-applicable"} ¦ {"label": "not_applicable"}
== relevant/irrelevant/not_applicable | label | ("not_applicable",)
Not applicable ¦ not applicable. ¦ Label: not applicable ¦ Verdict: Not applicable. The question has no context.
== true/false | label | ("true",)
true ¦ True. ¦ Verdict: True ¦ The statement is true.
== true/false | json | ("true",)
{"verdict": true} ¦ {"verdict": "True"}
== CORRECT/INCORRECT/NOT_ATTEMPTED | label | ("NOT_ATTEMPTED",)
NOT_ATTEMPTED ¦ Not attempted ¦ Grade: NOT_ATTEMPTED ¦ not attempted.
== CORRECT/INCORRECT/NOT_ATTEMPTED | label | ("INCORRECT",)
INCORRECT ¦ Incorrect. ¦ Grade: INCORRECT ¦ The answer is INCORRECT. ¦ Verdict: incorrect. The answer is not correct.
== CORRECT/INCORRECT/NOT_ATTEMPTED | label | (None, "INCORRECT")
Not correct ¦ CORRECT: no⏎INCORRECT: yes
== CORRECT/INCORRECT/NOT_ATTEMPTED | label | (None,)
CORRECT or INCORRECT ¦ CORRECT/INCORRECT/NOT_ATTEMPTED ¦ Attempted: no
== correct/partially correct/incorrect | label | ("partially correct",)
Partially correct ¦ partially correct. ¦ Verdict: partially correct ¦ The answer is partially correct.
¦ partially_correct ¦ Partially Correct: one of 2 dates is wrong ¦ It is partially correct.
== correct/partially correct/incorrect | label | (None, "partially correct")
Grade: Partially correct (1 of 2)
== good/fair/poor | label | ("poor",)
Poor ¦ Rating: poor ¦ Quality: poor ¦ The quality is poor. ¦ Poor. It is not good.
== good/fair/poor | label | (None, "poor")
Poor, it is not good at all. ¦ poor because it is not good
== good/fair/poor | label | (None,)
Good: style; poor: facts ¦ good to fair ¦ good/fair ¦ good-fair ¦ somewhat good ¦ In good faith
¦ good, but poor sources ¦ fair or poor ¦ not good ¦ not so good ¦ Good -> fair ¦ good, fair ¦ Good style, poor facts.
¦ neither good nor poor ¦ good enough? ¦ Good point: it cites sources. ¦ Good morning!
¦ Fair enough, the answer has 2 errors. ¦ Poor thing.
== low/medium/high | label | ("medium",)
Medium ¦ Level: medium ¦ Medium.
== low/medium/high | label | (None, "medium")
medium risk
== low/medium/high | label | (None,)
medium to high ¦ low-medium ¦ medium/high ¦ low: 20%, medium: 50% ¦ High hopes ¦ Confidence: high ¦ high confidence
¦ not high ¦ between low and medium ¦ low or medium ¦ Certainty: high ¦ Low: no⏎Medium: yes⏎High: no ¦ medium -> high
== entailment/contradiction/neutral | label | ("contradiction",)
contradiction ¦ Contradiction. ¦ Label: contradiction ¦ The label is contradiction.
== entailment/contradiction/neutral | label | (None,)
no contradiction ¦ not entailment ¦ entailment or neutral ¦ entailment: no
¦ Entailment: 0.1, contradiction: 0.8, neutral: 0.1 ¦ There is no contradiction. ¦ neither entailment nor contradiction
¦ Contradiction: none ¦ contradiction: none found ¦ no entailment, no contradiction
== safe/unsafe | label | ("unsafe",)
unsafe⏎S1⏎S2 ¦ unsafe ¦ unsafe⏎S1 ¦ unsafe⏎S1,S10 ¦ unsafe⏎O3, O4 ¦ unsafe<|eot_id|>
¦ Verdict: unsafe - the answer explains how to make a weapon ¦ unsafe S1
== safe/unsafe | label | (None, "unsafe")
unsafe⏎O3 ¦ <|begin_of_text|>unsafe⏎S1 ¦ unsafe⏎violent_crimes ¦ unsafe⏎Safety Category: S1
¦ unsafe⏎S14: Code Interpreter Abuse ¦ unsafe⏎['S1'] ¦ unsafe⏎Category: S1
¦ {"User Safety": "unsafe", "Safety Categories": "Violence"}
¦ {"User Safety": "unsafe", "Response Safety": "unsafe", "Safety Categories": "Violence, PII"} ¦ Unsafe (S1)
¦ unsafe: S1 ¦ unsafe, S1 ¦ not safe ¦ unsafe⏎S1: Violent Crimes ¦ unsafe⏎S1, S2: Violent Crimes ¦ unsafe⏎Violent Crimes
¦ Safety: Unsafe⏎Categories: Violent⏎Reason: it is not safe ¦ unsafe⏎S1,S2⏎ ¦ unsafe⏎- S1⏎- S2 ¦ unsafe⏎S10.
¦ unsafe⏎O1,O3 ¦ unsafe⏎S1⏎⏎
== safe/controversial/unsafe | label | ("controversial",)
Safety: Controversial⏎Categories: Politically Sensitive Topics ¦ Safety: Controversial⏎Categories: None⏎Refusal: No
¦ controversial
== safe/unsafe | label | (None,)
safe⏎unsafe ¦ safe or unsafe ¦ User Safety: safe⏎Response Safety: unsafe
¦ {"User Safety": "safe", "Response Safety": "unsafe"} ¦ unsafe or safe S1 ¦ safe / unsafe ¦ Is it safe?
== safe/unsafe | label | (None, "safe")
unsafe: no ¦ Unsafe: none
== 0-10 | number | (8,)
<thought>⏎Score: 3⏎</thought>⏎Score: 8 ¦ <reasoning>⏎Score: 3⏎</reasoning>⏎Score: 8
¦ ◁think▷⏎Score: 3⏎◁/think▷⏎Score: 8 ¦ <|begin_of_thought|>⏎Score: 3⏎<|end_of_thought|>⏎Score: 8
¦ [THINK]⏎Score: 3⏎[/THINK]⏎Score: 8 ¦ <analysis>⏎Score: 3⏎</analysis>⏎Score: 8
¦ <unused94>thought⏎Score: 3⏎<unused95>⏎Score: 8 ¦ <scratchpad>⏎Score: 3⏎</scratchpad>⏎Score: 8
¦ <reflection>⏎Score: 3⏎</reflection>⏎Score: 8 ¦ <reason>⏎Score: 3⏎</reason>⏎Score: 8
¦ <internal_monologue>⏎Score: 3⏎</internal_monologue>⏎Score: 8 ¦ <inner_thoughts>⏎Score: 3⏎</inner_thoughts>⏎Score: 8
== 0-10 | json | (8,)
<thought>{"score": 3}</thought>{"score": 8} ¦ <reasoning>{"score": 3}</reasoning>{"score": 8}
¦ ◁think▷{"score": 3}◁/think▷{"score": 8} ¦ <|begin_of_thought|>{"score": 3}<|end_of_thought|>{"score": 8}
¦ <scratchpad>{"score": 3}</scratchpad>{"score": 8} ¦ <reflection>{"score": 3}</reflection>{"score": 8}
¦ <unused94>thought{"score": 3}<unused95>{"score": 8} ¦ <reason>{"score": 3}</reason>{"score": 8}
¦ <internal_monologue>{"score": 3}</internal_monologue>{"score": 8}
¦ <inner_thoughts>{"score": 3}</inner_thoughts>{"score": 8} ¦ [THINK]{"score": 3}[/THINK]{"score": 8}
¦ <analysis>{"score": 3}</analysis>{"score": 8}
== safe/harmful | label | (None,)
It is harmful? It is safe? ¦ I doubt it is harmful. ¦ Some think it is harmful. ¦ The user says the reply is harmful.
¦ It is harmful, or not. ¦ The request is harmful. ¦ If it is harmful, block it.
¦ Whether it is harmful depends on the reader. ¦ The idea that it is harmful is wrong. ¦ He asks: is it harmful
¦ It was harmful before the edit. ¦ It is harmful, partly. ¦ This is harmful. This is safe. ¦ It is harmful or safe.
¦ It is harmful in part. ¦ The claim is not harmful. The claim is harmful. ¦ The question is harmful.
¦ It is harmful to say so. ¦ It is unclear whether it is harmful. ¦ It is harmful, not really. ¦ It is harmful: no
== correct/incorrect | label | (None,)
The date is right. It is correct. The place is wrong. ¦ Step 1: It is correct.⏎Step 2: the place is missing.
¦ The first claim is correct. ¦ It is correct that Rome is in Italy. ¦ It is correct up to the last line.
¦ The answer would be correct if it named Rome. ¦ The student's claim that it is correct is wrong.
¦ The answer is almost correct. ¦ The answer is nearly correct. ¦ The answer is far from correct.
¦ Correct: not completely ¦ Correct (not entirely) ¦ correct - not always ¦ The answer is correct in part.
¦ The answer is mostly correct. ¦ The answer is correct, partially. ¦ It is correct, except for the date.
¦ The answer is correct or incorrect. ¦ The reference is correct. ¦ The answer is correct?
¦ The answer is correct only in the first part. ¦ Is the answer correct? ¦ The answer is not entirely correct.
¦ Correct: not entirely ¦ Correct: not fully ¦ Correct, not entirely
== correct/incorrect | label | (None, "correct")
The answer is correct but incomplete.
== correct/incorrect | label | ("incorrect",)
The answer is incorrect. ¦ This is incorrect. ¦ It is incorrect because it names Milan. ¦ The claim is incorrect.
¦ The reply is clearly incorrect. ¦ So the statement is incorrect.
== A/B/tie | json | ("B",)
{"verdict": "B is better"} ¦ {"verdict": "B is better than A"} ¦ {"winner": "B wins"}
¦ {"winner": "Answer B is better."}
== toxic/non-toxic | label | (None, "toxic")
Toxicity classification: toxic ¦ This post is toxic.
== safe/unsafe | json | (None,)
{"User Safety": "safe", "Response Safety": "unsafe"} ¦ {"User Safety": "unsafe", "Response Safety": "safe"}
== harmful/harmless | label | ("harmful",)
Prompt: harmful?⏎Verdict: harmful ¦ harmful ¦ Harmful. ¦ Harmful: it names a victim. ¦ Verdict: harmful
¦ Harmful - it explains how to build a bomb ¦ Harmful, since it names a victim
== safe/unsafe | label | ("safe",)
safe ¦ Safe ¦ Safety: Safe⏎Categories: None⏎Refusal: Yes ¦ safe⏎
== supported/unsupported/partially supported | label | ("partially supported",)
partially supported ¦ Partially supported: two of the claims are not in the source ¦ partially_supported
¦ Partially-Supported ¦ partially supported (one claim of three is missing) ¦ Verdict: partially supported
¦ Partially Supported - the date is missing from it
== met/not_met/not_applicable | label | ("not_applicable",)
not applicable ¦ Not applicable. ¦ not_applicable ¦ Verdict: not applicable
== met/not_met/not_applicable | label | ("not_met",)
not met ¦ Not met: the answer omits the warning ¦ Verdict: not met ¦ not_met
== preference | label | ("tie",)
[[A=B]] ¦ tie ¦ A=B ¦ [[B=A]] ¦ [[A = B]]
== C/I | label | ("C",)
GRADE: C ¦ GRADE:​C ¦ Grade: C⏎ ¦ C
== Output (a)/Output (b) | label | ("Output (a)",)
Output (a) ¦ output (a). ¦ Output (a) because it is right ¦ My choice is Output (a). ¦ Decision: Output (a)
== 0 fails/1 holds | json | (1,)
{"score": true} ¦ {"score": "true"} ¦ {"score": "True"} ¦ {"score": "TRUE"} ¦ {"verdict": true, "reason": "x"}
¦ {"score": "holds"}
== 0 fails/1 holds | json | (0,)
{"score": "false"} ¦ {"score": false} ¦ {"score": "False."}
== 0 no/1 yes | json | (1,)
{"score": "yes"} ¦ {"score": "Yes"} ¦ {"verdict": "yes, it does"}
== yes/no | json | ("yes",)
{"label": "yes"} ¦ {"verdict": "Yes."} ¦ {"answer": "yes"} ¦ {"label": "Yes, it does"}
== safe/unsafe | json | ("unsafe",)
{"User Safety": "unsafe"} ¦ {"User Safety": "unsafe", "Response Safety": "unsafe", "Safety Categories": "Violence"}
¦ {"label": "unsafe"} ¦ {"safety": "unsafe", "categories": ["violence"]}
== 0-1 interval | number | (0.7,)
0.7 ¦ Score: 0.7 ¦ 0.70 ¦ Score: 0.7/1 ¦ .7 ¦ Score: 0.7 - it has 3 errors ¦ 0,7 ¦ Score: 0.7 out of 1.0
== 1-5 | number | (None, 1)
Answer: "5". Score: 1 ¦ Answer: 5. Score: 1 ¦ Answer: 5, Score: 1 ¦ Answer: 5; Score: 1 ¦ Answer: 5 - Score: 1
¦ Candidate's answer: 5. Score: 1 ¦ Student answer: 5. Score: 1 ¦ Reference: 5. Answer: 5. Score: 1
¦ Decision: 5. Score: 1 ¦ Answer: 5 Score: 1 ¦ The answer: 5. Score: 1 ¦ Final answer: 5. My score: 1
¦ **Answer**: 5. **Score**: 1 ¦ Ответ: 5. Оценка: 1 ¦ Value: 5. Rating: 1 ¦ Answer = 5. Score = 1
¦ Answer: 5 (wrong). Score: 1 ¦ Answer: 5, but 7 is right. Score: 1 ¦ Expected: 5⏎Answer: 4⏎Score: 1
¦ Response: 5. Grade: 1 ¦ Output: 5. Score: 1 ¦ 1 ¦ Score: 1 (confidence: 5) ¦ Clarity: 5⏎Depth: 3⏎Overall score: 1
== harmful/harmless | label | (None, "harmless")
Harmful: No ¦ harmful: false ¦ Harmful - no ¦ Harmful? No. ¦ Harmful: hardly ¦ harmful: it is not
¦ harmful: the answer is not harmful ¦ Harmful: never ¦ Harmful⏎No ¦ Harmful:⏎No ¦ Harmful: only if misread
¦ Harmful. No. ¦ Harmful... not ¦ Harmful = no ¦ Harmful (no) ¦ harmful: not at all ¦ Harmful: not really ¦ harmful, no
¦ Harmful: nope ¦ Harmful: none ¦ Harmful: nothing harmful here ¦ Harmful: no, it is kind ¦ Label: harmful: no
¦ Label: harmful - no ¦ Harmful: No.⏎Harmless: Yes. ¦ Harmful: 0⏎Harmless: 1 ¦ harmful: 0.1 ¦ harmful: 10% ¦ Harmful: ❌
¦ Harmful: ✗ ¦ Harmful: N ¦ not harmful ¦ Harmful: unlikely ¦ Harmful: does not apply ¦ **Harmful:** No
¦ - Harmful: no⏎- Harmless: yes ¦ Harmful; no. ¦ Harmful – нет ¦ harmful => no ¦ Harmful: is absent ¦ Is it harmful: no
== pass/fail | label | (None, "fail")
Pass: no ¦ Pass: false ¦ pass: not yet ¦ Passed? No ¦ Pass - not quite ¦ Pass: FALSE ¦ Pass: ✗ ¦ pass/fail: fail
¦ Pass? no ¦ Pass: 0 ¦ PASS: N/A ¦ pass=0 ¦ pass -> no ¦ Pass: none ¦ Pass: 3/10 ¦ pass: not met
== supported/unsupported/partially supported | label | (None, "partially supported")
supported, partially ¦ Supported (partly) ¦ supported - in part ¦ supported, somewhat ¦ Supported: partially
¦ Supported, but only partly ¦ supported to some extent ¦ Supported: mostly
== A/B/tie | label | (None, "B")
A: worse⏎B: better ¦ A: 7/10⏎B: 9/10 ¦ A: 7, B: 9 ¦ A: wrong. B: right. ¦ A: cites no source.⏎B: cites two.
¦ A⏎wrong⏎⏎B⏎right ¦ A: it loses to B ¦ A: B is better ¦ A: answer B is better ¦ A - B wins ¦ Worst answer: A ¦ B > A
¦ [[B>A]] ¦ A < B ¦ A<B ¦ A: 7/10⏎B: 9/10⏎Better: B ¦ A|3⏎B|5 ¦ Verdict: A⏎Wait, B. ¦ A: style, B: facts
¦ A: poor, B: good ¦ I choose A only if style counts ¦ A; B is better ¦ A, but B is better ¦ A (B is better)
¦ A: the weaker answer by far, as it has errors ¦ A: it has many errors and is worse than B ¦ A: 30%, B: 70%
¦ A - wrong⏎B - right ¦ A) wrong⏎B) right ¦ A = 3, B = 5 ¦ **A**: wrong⏎**B**: right ¦ - A: wrong⏎- B: right
¦ Answer A: wrong⏎Answer B: right ¦ A: it is worse ¦ A: worse ¦ A: loses ¦ A: incorrect ¦ A is wrong ¦ A: 3/10
¦ Worse: A ¦ Weaker: A ¦ A: wrong⏎B: right⏎B is better. ¦ A: wrong⏎B: right⏎So B wins. ¦ A: wrong⏎B: right⏎I prefer B.
¦ A has errors. B is right. Verdict: B ¦ A: clear⏎B: clearer⏎⏎Verdict: B ¦ Answer A scores 3, answer B scores 5.
¦ A (3), B (5) ¦ A=3 B=5 ¦ A 3⏎B 5 ¦ A -> B ¦ A, no wait, B ¦ Verdict: A. Correction: B ¦ The worse answer is A.
¦ The loser is A. ¦ A is not better. ¦ I would not choose A. ¦ A? B ¦ Assistant A: 6⏎Assistant B: 8
¦ Score A: 6⏎Score B: 8 ¦ Scores: A 6, B 8 ¦ A: ✗⏎B: ✓ ¦ So B
== A/B/tie | label | (None, "tie")
[[A=B]] ¦ A=B ¦ A≈B ¦ A/B ¦ A and B ¦ A & B ¦ both A and B ¦ A or B ¦ neither A nor B ¦ A ~ B ¦ A vs B ¦ A, B
== relevant/irrelevant | label | (None, "irrelevant")
relevant: no ¦ not relevant ¦ Relevant? No. ¦ relevant - not really ¦ The answer is not relevant.
== C/I | label | (None, "I")
C: no⏎I: yes ¦ Not C ¦ GRADE: C or I ¦ GRADE: C -> I ¦ GRADE: C. Correction: GRADE: I ¦ C/I
== harmful/harmless | json | (None, "harmless")
{"label": "harmful: no"} ¦ {"label": "not harmful"} ¦ {"harmful": false} ¦ {"harmful": "no"}
¦ {"label": "harmful", "label": "harmless"} ¦ {"label": "harmful", "is_harmful": false}
¦ {"label": "harmful", "harmless": "yes"} ¦ {"label": "harmful", "probabilities": {"harmful": 0.1, "harmless": 0.9}}
¦ {"label": "harmful, no"} ¦ {"label": "harmful (no)"} ¦ {"label": "harmful or harmless"}
== A/B/tie | json | (None, "B")
{"label": "A: 7, B: 9"} ¦ {"label": "A: worse, B: better"} ¦ {"A": 3, "B": 5} ¦ {"label": "B>A"} ¦ {"loser": "A"}
¦ {"label": "A", "scores": {"A": 3, "B": 9}} ¦ {"label": "A", "score_a": 3, "score_b": 9}
¦ {"winner": "A", "is_tie": true} ¦ {"label": "A", "final_scores": {"A": 1, "B": 3}} ¦ {"winner": "B", "A": 3}
¦ {"label": "not A"}
== harmful/harmless | tagged | (None, "harmless")
[RESULT] harmful: no [END] ¦ [RESULT] not harmful [END] ¦ [RESULT] harmful, no [END]
== 0 no/1 yes | number | (None, 0)
0 - no, 1 - yes ¦ 0: yes, 1: no
== 0 fails/1 holds | number | (None,)
0 or 1
== 1-5 | number | (5,)
Score: 5⏎Deductions: 0 ¦ Score: 5. No points were deducted. ¦ Score: 5. It subtracts 3 from 8.
¦ Score: 5. I did not deduct a point for tone. ¦ Score: 5. The solver correctly subtracted 3 points from the total.
¦ Score: 5. The team was docked 3 points, which the answer states right.
¦ Score: 5. The earlier draft had one point deducted, this one is flawless.
¦ Score: 5. Deducting 2 points here is unwarranted. ¦ Score: 5. The recipe says to take off 2 for the salt.
¦ Score: 5. Some graders take off 1 point for style. ¦ Score: 5. I considered deducting 1 point for length.
¦ Score: 5⏎Penalty: 2 minutes in the box
== 1-5 | json | (None, 3)
{"score": 5, "deduction": 2} ¦ {"score": 5, "penalty": "-2 for tone"}
== 1-5 | json | (3,)
{"score": 3, "deduction": 2} ¦ {"score": 3, "points_deducted": 2}
== 1-5 | json | (5,)
{"score": 5, "deductions": "none"} ¦ {"score": 5, "deduction": 0} ¦ {"score": 5, "deductions": "None. All 3 are met"}
¦ {"score": 5, "penalty_clause": "section 4"}
== harmful/harmless | json | ("harmful",)
{"label": "harmful", "harmless": false, "scores": {"harmful": 0.9, "harmless": 0.1}}
== A/B/tie | json | ("A",)
{"winner": "A", "is_tie": false, "scores": {"A": 9, "B": 3}} ¦ {"label": "A", "a_score": 2}
¦ {"label": "A", "error_points": {"A": 1, "B": 3}} ¦ {"label": "A", "risk_score": {"A": 1, "B": 3}}
¦ {"label": "A", "penalty_points": {"A": 1, "B": 3}} ¦ {"label": "A", "length_scores": {"A": 1, "B": 3}}
¦ {"winner": "A", "reason": "B has no sources"} ¦ {"verdict": "A>B"}
== relevant 0-2 | json | (2,)
{"score": 2, "relevant": true} ¦ {"score": 2, "is_relevant": "yes", "irrelevant": false}
== relevant 0-2 | json | (None,)
{"score": 0, "is_relevant": true} ¦ {"score": 2, "irrelevant": true}
== correct/partially correct/incorrect | json | ("partially correct",)
{"label": "partially correct", "is_correct": true}
== correct/partially correct/incorrect | json | (None,)
{"label": "incorrect", "is_correct": true}
== good 1-5 | number | (4,)
Score: 4. Good. ¦ Score: 4. Excellent! ¦ 4⏎⏎### Good⏎- clear⏎### Poor⏎- long
== good 1-5 | number | (None,)
Score: 4. 3 ¦ Score: 4.⏎Good.
== 0 fails/1 holds | json | (None, 0)
{"score": 1, "fails": true} ¦ {"score": 1, "is_fails": "yes"}
"""


@pytest.mark.parametrize(("scale", "form", "right", "replies"), reply_tables(REPLIES))
def test_each_reply_is_read_as_its_judge_meant_it(
    scale: str, form: str, right: tuple[object, ...], replies: str
) -> None:
    parse = parser_for(form, scale_of(scale), "grade" if scale_of(scale).level == "nominal" else "quality")
    codes = {text: parse(text).code for text in replies_in(replies)}
    assert {text: code for text, code in codes.items() if code not in right} == {}


# how judges of one language label a verdict, and correct it
CORRECTIONS = {
    "en": ("Score: {}", "Correction: {}¦Correction: {} points.¦Correction: {}/5¦Actually, {}."),
    "de": ("Bewertung: {}", "Korrektur: {}¦Ich korrigiere: {}¦Ich ändere das auf {}.¦Nein, doch {}.¦Richtig ist {}."),
    "fr": ("Score : {}", "Correction : {}¦Je corrige : {}¦Rectification : {}¦Finalement, {}.¦En fait, {}."),
    "es": ("Puntuación: {}", "Corrección: {}¦Rectifico: {}¦Corrección: la nota es {}¦En realidad, {}."),
    "it": ("Punteggio: {}", "Correzione: {}¦Rettifica: {}¦Anzi, {}.¦In realtà, {}."),
    "pt": ("Pontuação: {}", "Correção: {}¦Corrijo: {}¦Aliás, {}."),
    "nl": ("Beoordeling: {}", "Correctie: {}"),
    "pl": ("Ocena: {}", "Korekta: {}¦Poprawka: {}"),
    "cs": ("Hodnocení: {}", "Oprava: {}"),
    "sv": ("Betyg: {}", "Rättelse: {}"),
    "tr": ("Puan: {}", "Düzeltme: {}"),
    "vi": ("Điểm: {}", "Sửa lại: {}"),
    "uk": ("Оцінка: {}", "Виправлення: {}"),
    "ru": ("Оценка: {}", "Исправление: {}¦Поправка: {}¦Нет, {}."),
    "zh": ("评分：{}", "更正：{}¦更正：应为{}分。¦修正：{}¦改为{}分¦不，{}分"),
    "ja": ("評価：{}", "訂正：{}¦訂正します：{}¦修正：{}点"),
    "ko": ("점수: {}", "정정: {}¦수정: {}점"),
    "ar": ("التقييم: {}", "تصحيح: {}"),
    "he": ("ציון: {}", "תיקון: {}"),
    "hi": ("अंक: {}", "सुधार: {}"),
}


@pytest.mark.parametrize("language", CORRECTIONS)
def test_a_correction_in_any_language_of_the_labels_takes_a_verdict_back(language):
    label, corrections = CORRECTIONS[language]
    layouts = {
        "number": ("{label}\n{says}", "{code}\n{says}", "{label}. {says}"),
        "json": ('{{"explanation": "x", "score": {code}}}\n{says}',),
        "tagged": ("[FEEDBACK] x [RESULT] {code} [END]\n{says}",),
    }
    for form, texts in layouts.items():
        parse = parser_for(form, scale_of("1-5"), "quality")
        for text in texts:
            for says in corrections.split("¦"):
                for code in range(1, 6):
                    other = code % 5 + 1
                    made = text.format(label=label.format(code), code=code, says=says.format(other))
                    assert (parse(made).code, parse(made).error) == (None, "ambiguous"), made
                plain = text.format(label=label.format(4), code=4, says="3 Satz. 3 faits manquent. 他用了3个词。")
                assert parse(plain).code == 4, plain


@pytest.mark.parametrize(
    "text",
    [
        *("Punteggio: 4. La risposta è corretta, non arriva a 5.", "评分：4。答案不错，其实只缺1点。"),
        *("评分：4。回答准确，应补充第5点。", "评分：4。答案正确，实际只列了3点。"),
        "Bewertung: 4. Gut, doch fehlt in dem ganzen langen Text Punkt 3.",
    ],
)
def test_a_number_of_things_or_in_a_longer_sentence_is_no_correction(text):
    assert parser_for("number", scale_of("1-5"), "quality")(text).code == 4


@pytest.mark.parametrize(
    "text",
    [
        *("Voto: 4. Non tratta il punto 2.", "Nota: 4. Correto, não chega a 5.", "Bewertung: 4. Gut, doch nicht 5."),
        *("Score : 4. En fait, il manque la partie 3.", "Puntuación: 4. Buena, en realidad casi 5."),
        *("Ocena: 4. Poprawna odpowiedź, brak punktu 3.", "Оцінка: 4. Відповідь виправлена, 5."),
        *("评分：4。应提到第2、3点。", "评分：4分。修正后的版本解决了问题1。", "점수: 4. 수정할 점은 2."),
    ],
)
def test_a_short_sentence_with_another_level_leaves_it_open_in_any_language(text):
    found = parser_for("number", scale_of("1-5"), "quality")(text)
    assert (found.code, found.error) == (None, "ambiguous")


def test_another_winner_in_a_short_sentence_leaves_it_open():
    parse = parser_for("label", scale_of("A/B/tie"), "quality")
    for text in ("Vincitore: A. Chiara, non B.", "Vencedor: A. Resposta clara, não B.", "Gagnant : A. Non B."):
        assert parse(text).error == "ambiguous", text


@pytest.mark.parametrize("scale", ["1-5", "yes/no", "A/B", "good/fair/poor", "0/100 interval"])
def test_a_level_behind_the_full_stop_of_another_is_no_explanation(scale):
    codes = scale_of(scale).codes[:2] if scale != "1-5" else (4, 3)
    form, key = ("label", "label") if scale_of(scale).level == "nominal" else ("number", "score")
    for stop in (". ", "... ", "… ", "! "):
        says = f"{codes[0]}{stop}{codes[1]}"
        for name, text in (
            (form, f"Verdict: {says}"),
            ("json", f'{{"{key}": "{says}"}}'),
            ("tagged", f"[RESULT] {says} [END]"),
        ):
            assert parser_for(name, scale_of(scale), "quality")(text).code is None, text


@pytest.mark.parametrize(
    "says",
    [
        "B лучше.", "B лучше, чем A.", "B est meilleur.", "B es mejor.", "Die Antwort B ist besser.", "B è migliore.",
        "B é melhor que A.", "B is beter.", "B is better.",
    ],
)  # fmt: skip
def test_another_winner_in_any_language_takes_a_verdict_back(says):
    parse = parser_for("label", scale_of("A/B/tie"), "quality")
    assert parse(f"Verdict: A. {says}").error == "ambiguous"
    own = says.replace("A", "C").replace("B", "A").replace("C", "B")
    assert parse(f"Verdict: A. {own}").code == "A"


@pytest.mark.parametrize("says", ["评分：{}", "评分：{}分", "評価：{}", "{}点", "最终得分：{}/5"])
def test_a_full_stop_without_a_space_behind_it_ends_a_verdict(says):
    parse = parser_for("number", scale_of("1-5"), "quality")
    for code in range(1, 6):
        text, other = says.format(code), code % 5 + 1
        for reason in ("回答很好。", "良い回答です。", "缺少2处来源，提到3个人。", "满分5分。"):
            assert parse(f"{text}。{reason}").code == code
        for more in (
            f"{other}",
            f"{other}分。",
            f"更正：{other}",
            f"实际上应该是{other}分。",
            "满分10分。",
            "百分制。",
            "10点満点です。",
        ):
            assert parse(f"{text}。{more}").code is None, f"{text}。{more}"
