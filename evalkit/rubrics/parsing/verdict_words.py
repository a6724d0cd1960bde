"""Tables of words and marks: what names a verdict, what speaks against one, where thinking begins and ends.

`docs/adr/0004-parsing.md` states the rule that uses them. A word may be a pattern; between words stands white space.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Names that judges use for their reasons, as JSON keys and before a colon.
EXPLAINS = _words(r"""explanation explanations reason reasons rationale rational feedback reasoning analysis
    justification comment comments thoughts thought explain critique обоснование объяснение пояснение комментарий
    анализ""")

# Words before a colon, or within a sentence, that name a judge's own verdict.
VERDICT_WORDS = _words(r"""(?:user\s|response\s|content\s)?safety(?:\s(?:rating|assessment))? score rating grade
    verdict final mark judgment judgement label conclusion winner overall preference evaluation assessment
    classification pick status outcome (?:better|best|preferred|winning)(?:\s(?:one|answer|response|output|choice))?
    relation urteil bewertung gesamtbewertung wertung punktzahl veredicto puntuación puntaje calificación évaluation
    jugement punteggio valutazione giudizio pontuação avaliação ocena puan poäng hodnocení skor nilai điểm оцінка
    الدرجة التقييم gesamtnote endnote (?:nota|note)\s(?:final|finale|global) voto skóre wynik beoordeling cijfer
    (?:slut)?betyg бал đánh\sgiá điểm\ssố değerlendirme evaluación النتيجة रेटिंग 总得分 총점 총평 ציון स्कोर अंक คะแนน
    ocena\skońcowa karakter vurdering poeng pisteet arvosana pontszám értékelés scor punctaj ocjena βαθμολογία βαθμός
    nihai\spuan (?:skor|nilai)\sakhir النقاط نمره امتیاز স্কোর மதிப்பெண் कुल\sअंक 评分结果 採点(?:結果)? puntos iskor
    (?:最终|最終|综合|総合|总体)?(?:评分|评价|得分|分数|结论|判定|評分|評価|点数|スコア) 总分 總分 胜者 勝者
    判断 最终判断 gewinner ganador gagnant vincitore vencedor (?:최종\s)?(?:점수|평가|평점)
    оценка балл баллы вердикт рейтинг вывод выбор метка итог победитель""")

# Words that also name what was judged: they count only where nothing else is labelled.
ECHO_WORDS = _words(r"""answer result value choice decision response output nota ответ результат значение решение""")

# JSON keys of the answer, the likeliest first; case, spaces and dashes do not matter.
VERDICT_KEYS = _words(r"""score label rating grade verdict final_score final_verdict overall_score judgment
    judgement prediction classification winner safety user_safety response_safety criteria_met criterion_met
    requirement_met overall overall_rating total_score оценка балл вердикт""")

# JSON keys that may also repeat what was judged: they count only if no other key may hold the verdict.
ECHO_KEYS = _words(r"""result answer value choice decision результат ответ""")

# JSON keys of an item that a judge repeats.
INPUT_KEYS = _words(r"""context contexts conversation input prompt question reference references source вопрос""")

# JSON keys of an object that holds the answer one level below.
WRAPPER_KEYS = _words(r"""arguments assessment data evaluation evaluations final grading json output parameters ratings
    response result results review scores function""")

# Parts of JSON keys under which a judge quotes.
QUOTED_KEYS = _words(r"""answer candidate quot cit(?:e|ation) repl(?:y|ies) respon text example original input
    question context reference source prompt ответ цитат кандидат пример expected previous prior human self_ schema
    propert gold draft initial baseline student submission template ground_t definition ^old ^user$""")

# Words that may stand before a verdict word on its line.
BEFORE_WORDS = _words(r"""the my our assigned given awarded so thus hence therefore final overall total numeric
    numerical итоговая итоговый итог общая общий моя мой финальная финальный окончательная окончательный лучший""")

# What else may stand right before a verdict word within a sentence: ``a score of 2``.
OF_JUDGE = _words(r"""an? this that its? is be of as with for to at by in on and or but evaluator llm rubric single
    numerical same new die der das la le el il поэтому значит вот и а но эта""")

# Whose score is not the judge's verdict, right before ``Score:``.
OTHER_RATERS = _words(r"""candidate student author teacher user human annotator expert reviewer critic customer
    reader reference gold ideal another other previous earlier expected target maximum max minimum min average mean
    median pass passing threshold self interim provisional cut base raw reading education their his her gpt claude
    line wors(?:e|t) weak(?:er|est) rejected losing gemini llama mistral qwen hotel film movie imdb text passage
    article кандидат автор эталон\w* идеальн\w+ другой другая эксперт\w*""")

# What is not judged, right before ``gets a``: the candidate, student or text is.
NOT_JUDGED = _words(r"""reference gold ideal another other previous earlier expected average mean median human
    teacher annotator expert reviewer critic эталон\w* идеальн\w+ другой другая""")

# What may stand before a bracketed number, beside the levels' own names: ``Rather good (4)``.
GOODNESS = _words(r"""good great excellent perfect strong high solid fair decent acceptable adequate satisfactory
    average ok okay medium moderate mediocre weak low poor bad terrible""")

# Beginnings of nouns that look like a quality, and are none, or the opposite of one.
NO_QUALITY = _words(r"""un(?!iqu|iv|derst|ity)
    in(?:accur|consist|coher|complet|suffic|adequ|correct|appropr|sensit|effic|toler|stan|stab) ir(?:rele|respons)
    dis non mis im(?:prec|polite|prop|poss|matur) toxic harm sever verbos redund hallucin bias differ senten eviden
    absen occurr negativ offens hostil ambigu vague rude repetit wordi weak useless worthless careless meaning
    pointless priorit quanti identi entit cit capac dens activ facil univers distan sequen audien scien experien
    confer perplex probab possib difficul abnorm danger obscen profan illeg fals simil monoton aggress frequen laten
    curren agen emergen tenden depend urgen deficien redun confiden certain refer varian уверен""")

# Verbs of another speaker, for all rules: the third person and the past, as "I conclude" is the judge's.
SPEAKS = (
    r"(?:(?:claim|stat|insist|conclud|mention|suggest|believ|assert|announc|boast|report|declar|not|predict|demand|hop|argu|propos"
    r"|request|maintain|alleg|add|ask|beg|plead|answer|respond|admit|promis|estimat|pretend|advis|comment|explain|recommend)(?:e?s|e?d)"
    r"|says?|said|wr(?:ites?|ote|itten)|thinks?|thought|feels|tells?|told|repl(?:y|ies|ied)|reads?|quot\w+|puts?"
    r"|пиш\w+|напис\w+|говор\w+|сказ\w+|утвержда\w+|прос[ия]\w+|считает|цит\w+)"
)

# Verbs of a sentence that goes on with what another speaker wrote.
REPORTS = (
    rf"\b(?:{SPEAKS}|contain\w*|includ\w+|ends?|ended|ending|begins?|began|starts?|append\w*|plant\w*|prints?|line|holds?"
    r"|outputs?|returns?|returned|g[ai]ves?|embeds?|содерж\w+|заканчива\w+)"
)

# What names another speaker behind a level: ``4, says the candidate``, ``4, it claims.``, ``4 (human)``.
_NOT_OURS = (
    r"\s(?!(?:the|this|our|my|these|your)\s(?:given\s)?"
    r"(?:rubric|criteri|scale|guid|instruct|descri|level|defin|rule|standard|require))"
)
ACCORDING = rf"(?:according\sto|in\sthe\swords\sof){_NOT_OURS}"
ATTRIBUTES = (
    rf"(?<=[,(—–-]\s){SPEAKS}\s(?:the|its|their|an?|he|she|they)\b",
    rf"(?<=,\s)(?:the|its|their|an?|he|she|they|it)\s(?:\w{{1,20}}\s){{0,2}}{SPEAKS}\W*(?:\n|\Z|\.\s)",
    rf"according\sto{_NOT_OURS}",
    r"self-(?:assess|rat|report|scor|eval|grad)\w*",
    r"(?:by\s)?(?:the\s)?(?:human|candidate|student|annotator|expert|self|author|user|reference|gold)(?:['’]s)?\W{0,3}(?:\n|\Z)",
)

# What levels that are names may be called: ``Answer A``.
KINDS = "option|answer|response|output|assistant|label|choice|candidate|model|system|text|вариант|ответ|ассистент"

# Words of a level that says that neither is better.
TIES = _words(r"""tie tied draw equal equally even same ничья равны равноценны одинаково одинаковы поровну""")

# What else stands for the level of ties, as MT-Bench's ``[[C]]``.
TIED = "tied|draw|equal|no clear winner|they are equal|they are equally good|neither is better|[[c]]|both are equal"
TIED += "".join(f"|both {kind}are equally {how}" for kind in ("", "answers ", "responses ") for how in ("good", "bad"))

# Answers to a level's name: ``Harmful: No``.
YES_NO = _words(r"""yes no true false yeah yep nope correct incorrect ja nein oui non sí sim não да нет верно
    неверно ага""")

# Those of them that deny.
NO = _words("no false nope incorrect nein non não нет неверно")

# Verdict words whose values are names: ``Status: 3`` is no rating.
NAMED_ONLY = _words("status outcome winner pick better best preferred winning relation")

# Units of a number.
UNITS = r"(?:stars?|points?|pts|punk\w+|punt\w+|点|점|★|⭐|балл(?:а|ов|ы)?|зв[её]зд(?:а|ы)?|очк(?:о|а|ов)|分)(?!\w)"

# Words after which prose explains a verdict.
BECAUSE = r"(?:because|since|due|as|given|потому|так как|поскольку|ибо)\b"

# What changes a number or a labelled level if it begins the words joined to it.
ALTERS = _words(r"""or minus less plus maybe perhaps possibly probably borderline down up was were formerly
    previously initially originally before after sorry wait rather actually if unless except\w* once would assuming
    provided at\s(?:most|best|least) tops max between could might close\sto bordering verging approaching through
    thru up\sto (?:only\s)?(?:partly|partially|in\spart)(?!\s(?:because|due|since))
    not\s(?:yet|really|quite|entirely|fully|completely|exactly|always|deserved|earned|given|warranted|justified|sure|a|an|at\sall)\b|not(?=\W*\Z)
    never no\s(?:wait|way|longer|more|less|doubt|it|i|that|this|sorry|actually|rather|make|idea) closer leaning
    i\smean или либо минус плюс возможно может наверное было был была если точнее вернее не\sсовсем хотя\sнет скорее
    почти максимум минимум пока нет""")

# What denies or weakens a level's name if it begins the words joined to it.
DENIES = _words(r"""no not never none nothing neither nor hardly barely scarcely partly partially in\spart somewhat
    almost nearly half unlikely doubtful unclear only lacks? without isn['’]?t doesn['’]?t wasn['’]?t far\sfrom less
    too mostly kind\sof sort\sof to\ssome\sextent не нет ни никак никогда едва отчасти частично почти без совсем\sне
    вовсе\sне""")

# What weighs one of two answers: ``A: it is worse`` speaks of A, and gives no verdict.
WEIGHS = _words(r"""wors(?:e|t) wrong incorrect weak(?:er)? los(?:es|t) inferior fail(?:s|ed)? miss(?:es|ed) bad
    poor better right good strong(?:er)? best w[io]n(?:s|ner)? хуже лучше слаб\w+ сильн\w+""")

# How a judge corrects itself in the other languages of `VERDICT_WORDS`: what stands before a colon, as patterns …
CORRECTIONS = _words(r"""korrektur (?:ich\s)?korrigier\w+ (?:ich\s)?berichtig\w+ je\scorrige rectif\w+ corrección
    corrij\w+ correzione corregg\w+ rettific\w+ correção retific\w+ correctie korekta poprawka poprawiam oprava
    rättelse düzelt\w+ koreksi đính\schính sửa\slại виправ\w+ תיקון تصحيح सुधार διόρθωση
    更正\w* 修正\w* 訂正\w* 订正\w* 정정\w* 수정\w*""")

# … and what the other level follows at once, or behind such words as "eher" and "la nota es".
_REALLY = "(?:其[实實]|[实實][际際]上?|実際に?)"
CORRECTS = (
    r"(?:(?:(?:nein|non|não|不对?|いや|いいえ|아니요?)\s?[,，、:：;–—-]\s{0,2}|(?:doch|vielmehr|richtig\s(?:ist|wäre)|finalement|plutôt"
    r"|anzi|aliás|en\s(?:fait|réalité|realidad)|más\sbien|mejor\sdicho|in\srealtà|na\sverdade|ich\sändere\s(?:\w{1,12}\s){0,3}auf)"
    r"[\s,:]{1,3})(?:(?:eher|doch|nur|lieber|plutôt|c['’]est|eine?|une?|uma?|i?st|est?|è|é|(?:la|le|a|die)\s\w{1,12})\s){0,3}"
    rf"|{_REALLY}?\s?(?:[应應][该該当當]?|[更修订訂]正|改)[为為是成给給得评評]\s?|{_REALLY}(?:[是为為は]|[,，:：]\s?))"
)

# How a judge takes a verdict back, before it names another level.
RETRACTS = _words(r"""correction corrected adjusted edit(?:ed)? or wait actually scratch\sthat
    on\s(?:second\sthoughts?|reflection) i\smean[t]?
    (?:i|let\sme)\s(?:change|revise|correct|take|lower|raise|amend|reconsider|fix)\w* make\s(?:it|that) rather
    instead sorry no my\smistake reconsider\w* revised updated? change\w* apolog\w+ better\sstill поправка точнее
    вернее нет исправл\w+ передума\w+ скорее извин\w+ пересм\w+ хотя ой то\sесть""")

# What stands before a level to which the verdict is compared: ``better than a 3``.
COMPARES = _words(r"""than beyond above below under over unlike not to to\sbe for reach earn merit short\sof from
    beats against чем до выше ниже для на от past like toward""")

# Words in the clause of a closing sentence whose level is not given.
NOT_GIVEN = _words(r"""not \w+n['’]t cannot never no nor neither none only if unless should could might may must
    ask\w* demand\w* claim\w* want\w* request\w* expect\w* says said insist\w* beg\w* plead\w* hop(?:e|es|ed|ing)
    wish\w* short without instead rubric initially originally tentatively at\sfirst usually typically
    (?:it|him|her|them)sel(?:f|ves) to\s(?:get|earn|reach|receive|achieve|deserve|merit|win|have) previous\w*
    earlier requir\w* need\w* have had unable declin\w+ refus\w+ almost nearly tempted considered whether suggest\w*
    argu\w+ propos\w* не нет никогда ни если только лишь прос[ия]т\w* требу\w+ хо[чт]\w+ должн\w+ мог\w* можно
    прежн\w+ якобы чтобы утвержда\w+ ожида\w+ почти нужн\w+ нужен""")

# Words right before ``a score of 5`` that make it no verdict.
NOT_GIVEN_BEFORE = _words(r"""perfect full max(?:imum)? min(?:imum)? possible higher highest lower lowest top better
    best no not \w+n['’]t claimed requested demanded expected previous original prior высш\w+ максимальн\w+ прежн\w+
    лучш\w+""")

# How a judge begins a sentence that gives a level.
FIRST_PERSON = _words(r"""(?:i|we)(?:\s(?:would|will|shall|do|can))? i['’](?:d|ll|m) i\sam we['’]d я(?:\sбы)?""")

# What the judge does in such a sentence.
GIVES = _words(r"""giv(?:e|ing) say consider find classify settle\son score rate grade assign award choose pick
    select prefer label judge call mark vote\sfor go\swith""")

# The same in Russian, where it needs no pronoun.
GIVES_RU = _words(r"""выставляю поставил[аи]?\sбы оценил[аи]?\sбы поставлю поставил[аи]? ставлю оцениваю оценю
    оценил[аи]? выбираю присваиваю даю предпочитаю""")

# What a sentence says of the level that it begins with: ``A is better``, ``4 is fair``.
BETTER = "better|best|stronger|strongest|superior|preferable|preferred|favou?red|winner"
BETTER_ABROAD = (
    r"(?:ist|est|es|è|é|jest)\s(?:\w{1,12}\s)?(?:besser\w*|beste|meilleure?|mejor|migliore|melhor|lepsz\w)"
    r"|is\s(?:de\s)?(?:beter|betere)|лучше|сильнее|предпочтительнее"
)
FITTING = r"fair|appropriate|justified|suitable|warranted|reasonable|adequate|fitting|right(?=\s(?:score|rating|grade))"

# What was judged, beside `KINDS`: ``The reply is harmful``.
JUDGED = "reply|statement|comment|content|message|claim|summary|translation|conversation|sentence|post|review|quality"

# What may stand between ``is`` and a verdict.
SURELY = _words(r"""clearly definitely therefore thus indeed overall very obviously completely fully entirely simply
    much far slightly still the an?""")

# What the judged answer does in a sentence that gives a level.
EARNS = _words(r"""
    (?:gets?|earns?|deserves?|receives?|merits?|warrants?)\s(?:an?|the)(?:\s(?:\w{1,12}\s)?(?:score|rating|grade|mark)\sof)?
    заслуживает(?:\sоценки)? получает\sоценку (?:this|that|it)(?:\sis|['’]s|\smakes\sit)\sa(?:\ssolid|\sclear)?""")

# Marks around a judge's thinking, as patterns: what opens and what ends it; last the channels of gpt-oss.
_THOUGHT = r"(?:\w{1,20}[:_-]|ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|scratchpad|reflection|monologue"
_THOUGHT += r"|scratch_pad|cot|chain_of_thought|deliberation)"
_KIND = r"(?::\w{1,40}|_never_used_\w{1,40})"
THINKING = (
    (
        rf"<\|?(?!end_){_THOUGHT}(?:_start|{_KIND})?(?:\s[^<>]{{0,80}})?\|?>",
        rf"<(?:/\|?|\|/|\|end_(?:of_)?){_THOUGHT}{_KIND}?\|?>|<\|{_THOUGHT}_end\|>",
    ),
    ("\\[THINK\\]", "\\[/THINK\\]"),
    ("◁think▷", "◁/think▷"),
    ("<\\|inner_prefix\\|>", "<\\|inner_suffix\\|>"),
    ("<unused94>(?:thought)?", "<unused95>"),
    ("<\\|channel>thought", "<channel\\|>"),
    (
        "(?:<\\|start\\|>assistant)?<\\|channel\\|>(?:analysis|commentary)[^<>]{0,80}(?:<\\|constrain\\|>[^<>]{0,40})?<\\|message\\|>",
        "(?:<\\|(?:end|return)\\|>\\s{0,4})?(?:<\\|start\\|>assistant)?<\\|channel\\|>final[^<>]{0,80}(?:<\\|constrain\\|>[^<>]{0,40})?<\\|message\\|>",
    ),
    (r"\AThinking\.\.\.\n", r"\.\.\.done thinking\."),
    (r"\AHere(?: is|['’]s) my thought process:", r"Here(?: is|['’]s) my response:"),
    ("\\A(?-i:analysis(?=[A-Z]|[\\s\\S]*assistantfinal))", "assistantfinal"),
)

# Marks of a model's turns, none of which begins or ends thinking or a channel.
_TURN = (
    r"(?:<(?:[|｜](?!/?\w*(?i:think|thought|reason|inner_)|channel\b|message\b|start\||constrain\b)[^<>|｜\s]{1,40}[|｜]"
    r"|/s|[be]os|pad|unk|eod|EOT|(?:start|end)_of_turn|\|turn|turn\||seed:eos|end_of_utterance|/?assistant)>|\[/?INST\]|\[EOS\]|\[\|endofturn\|\]|\[e~\[)"
)

# Marks around a reply that some servers leave in it.
LEFT_OVER = (
    r"<\|(?:begin|end)_of_(?:solution|box)\|>|<\|(?:START|END)_RESPONSE\|>"
    rf"|\A\s*(?:(?:{_TURN}|<s>(?![\s\S]*</s>\s*\S))(?:(?:assistant|model)(?=\s*\n|<))?\s*){{1,8}}"
    rf"|(?:\s{{0,4}}{_TURN}){{1,8}}\s*\Z"
)

# What a terminal does not print: its colours, and characters that control it.
CONTROLS = "\\x1b\\[[\\d;?]{0,20}[A-Za-z]|[\\x00-\\x08\\x0e-\\x1f\\x7f]"

# Characters without width; joiners within a word belong to its spelling.
INVISIBLE = (
    "(?<=\\d)\\ufe0f?\\u20e3|[\\x80-\\x84\\x86-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f"
    "\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff0-\\ufffb\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff]"
    "|(?<![^\\W\\d_])[\\u200c\\u200d]|[\\u200c\\u200d](?![^\\W\\d_])"
)

# What a guard model writes behind its verdict, or on the line below it: ``S1,S10``.
GUARD_CATEGORIES = r"[A-Z]{1,3}\d{1,2}(?:\s*,\s*[A-Z]{1,3}\d{1,2}){0,30}"

# Finish reasons, in lower case, of a reply that a limit cut off: asked again, it would be cut off again.
CUT = _words(r"""context context_length_exceeded contextlengthreached incomplete length limit max_completion_tokens
    max_length max_output max_output_tokens max_tokens maxpredictedtokensreached model_context_window_exceeded
    model_length repetition token_limit prompt_too_long""")

# Finish reasons, in lower case, of a reply that the server or the model refused.
WITHHELD = _words(r"""blacklist blocklist content_filter content_filtered error_toxic guardrail_intervened model_armor
    prohibited_content recitation refusal safety sensitive spii""")

# Finish reasons, in lower case, of a whole reply, or that say nothing. After any other one it broke off.
ENDED = _words(r"""</s> <|eot_id|> <|im_end|> <|return|> complete completed done end end_of_turn end_turn endoftext
    eos eos_token eosfound finish finish_reason_stop finish_reason_unspecified finished function_call none normal null
    ok stop stop_sequence stop_token stop_word succeeded success tool_call tool_calls tool_use unknown unspecified
    word""")

# How a short text that declines begins.
REFUSES = (
    r"\W{0,3}(?:(?:i['’]?m|i am)\s+(?:very\s+|so\s+|really\s+)?(?:sorry|unable|not\s+able)"
    r"|sorry\b|i\s+apologi[sz]e|unfortunately,?\s+i\s+(?:can|am|must|will)"
    r"|i\s+(?:cannot|can['’]?t|can\s+not|won['’]?t|will\s+not|must\s+decline|do\s+not\s+feel)"
    r"|as\s+an\s+ai\b|извините|простите|приношу\s+извинения|к\s+сожалению,?\s+я"
    r"|я\s+(?:не\s+могу|не\s+в\s+состоянии|вынужден|отказываюсь))"
)

# Words of a line that introduces what another speaker wrote.
THEIRS = (
    rf"{REPORTS}\b|\b(?:response|its|their|(?:candidate|assistant|student|author|user|submiss|кандидат|автор|модел)\w*)"
)

# Words of a line that introduces a judge's own verdict.
MINE = (
    r"\b(?:my|i (?:give|rate|score|grade|judge|conclude|assign|award|decide|choose|say)|"
    r"evaluat\w+|assess\w+|verdict|scor\w+|rat(?:e|ed|ing)|grad(?:e|ed|ing)|judge?ments?|json|conclusion|"
    r"here(?: you are| you go| it is)?(?=\s*[:：])|requested|мо[йяеё]|итог\w*|оценк\w+|оценива\w+|вердикт\w*|"
    r"результат\w*|вывод\w*|запрошенн\w+)\b"
)

# Endings of a line that are the judge's own words although they name another speaker: ``JSON output:``.
_JUDGED = r"(?:candidate|assistant|student|user|author|submission|answer|reply|response|output)"
ABOUT = (
    r"(?:\b(?:(?:evaluation|assessment|scor(?:e|ing)|rating|grad(?:e|ing)) (?:of|for|on)|verdict (?:for|on))"
    rf"(?: (?:the|this|that|its|their))?(?: {_JUDGED}(?:['’]s)?){{1,2}}"
    r"|\bоценка(?: ответа)?(?: кандидата| модели| ассистента)?"
    r"|^\W{0,8}(?:final |evaluation )?(?:output|result)"
    r"|\b(?:my|json|structured|requested)(?: json)? (?:output|response|result|object))(?=\W*$)"
)

# Parts of the names of elements and keys that hold another speaker's words: <candidate>, [expected].
THEIR_PARTS = "quot|candidate|student|submission|example|expected|reference|previous|human|gold"

# Parts of the names that a judge gives to its own parts: <student_score>, [Start of evaluation].
OWN_PARTS = "scor|rating|grad|eval|assess|verdict|judg|feedback|reason|expla|analy|review"

# Each opening mark with a mark that closes it; all of the package knows quotation marks from here. The first pair
# with a mark shows how it is used most often: ``»`` closes, and seldom opens.
PAIRS = (
    *('""', "''", "＂＂", "“”", "„“", "„”", "‟”", "””", "‘’", "‚‘", "‚’"),
    *("«»", "»«", "‹›", "›‹", "「」", "『』", "《》", "〝〞", "〝〟", "❝❞", "❛❜"),
)
