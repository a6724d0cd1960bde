"""`explain`: why judgments went unscored, and what to do about it."""

from __future__ import annotations

import pandas as pd

from evalkit.tables.schemas import check

ADVICE = {
    "off_scale": "the score is not on the scale: name the allowed values in the template, or check the rubric's scale",
    "ambiguous": "two different scores in one reply: ask for one, in a fixed form (json or tagged)",
    "unreadable": "no score found: look at the raw replies, then at the template; number@v1, label@v1 read plain text",
    "truncated": "the reply was cut off: raise max_tokens, then judge again with refresh='unscored' "
    "(--refresh unscored)",
    "refused": "the judge, or a filter before it, refused: look at the items; another judge may answer",
    "empty": "the reply was empty: judge again with refresh='unscored' (--refresh unscored); reasoning models may need "
    "more max_tokens",
    "abstained": "the judge replied that it cannot decide: look at the items, or add a level for such answers",
    "low_mass": "the log-probabilities cover under .95 of the scale or sum to over 1.05, or the verdict's tokens were "
    "not found: use codes that differ in their first token, or read replies as text, with judge.replace(score=None)",
    "timeout": "no answer in time: judge again with a lower concurrency=, since calls wait at the server for their "
    "turn; or raise the judge's timeout_s",
    "rate_limited": "the service refused at its rate limit: judge again later, or lower concurrency=",
    "server_error": "the service, or your function judge, failed (see the log): judge again",
    "judge_down": "the key, URL or model name of this judge is wrong, or its service is down or out of credit: see "
    "the log, mend it, and judge again",
    "cache_miss": "not in the cache: run without offline, or import the replies",
    "in_batch": "a batch has requested the reply: collect the ticket named in the log, then judge again",
    "budget": "left out because of the budget: judge again with a larger one",
    "stopped": "the run was stopped, max_seconds was reached, or the judge's first replies were of no use (see "
    "the log): judge again; you pay only for the rest",
    "too_long": "the prompt, with room for max_tokens, is longer than the model's context: shorten the item, lower "
    "max_tokens or the rubric's limits, or ask a model with a larger context. The refusal is stored: where the "
    "server's own limit was raised, judge again with refresh='unscored' (--refresh unscored)",
    "missing_input": "the item lacks an input that the rubric needs: fill it and judge again",
    "unseen_image": "the item holds an image that this judge is not shown: the warning of `judge` says why, and what "
    "to do",
    "unseen_file": "no judge was asked, because the item holds a recording or a file; write its content as text",
    "not_asked": "the imported table has no judgment here; votes leave it out",
}


def explain(judgments: pd.DataFrame) -> pd.DataFrame:
    """Count the judgments without a score by reason and judge, with advice.

    Parameters
    ----------
    judgments
        A judgments table.

    Returns
    -------
    pandas.DataFrame
        One row per judge and reason, most frequent first: `error`, `judge`, `n`, `share` (0-1, of that
        judge's judgments), `items` (ids of the first three), `what_to_do`. Empty when everything is scored.

    Notes
    -----
    pandas cuts long texts when it prints a table: ``print(ek.show(explain(judgments), width=None))`` prints the whole
    advice.

    Examples
    --------
    >>> from evalkit.engine import judge
    >>> items = [{"question": "When?", "answer": "In May.", "context": "It opens in May."}]
    >>> sorted(explain(judge(items, "faithfulness", "fake:broken", samples=9))["error"])
    ['refused', 'truncated', 'unreadable']
    """
    table = check(judgments, "judgments", need=["item_id", "judge", "error"])
    n_judgments = table["judge"].astype(str).value_counts()
    failed = table.loc[table["error"].notna(), ["error", "judge", "item_id"]].astype(str)
    groups = failed.groupby(["error", "judge"], sort=False)["item_id"]
    rows = groups.agg(n="size", items=lambda ids: ", ".join(ids.unique()[:3])).reset_index()
    rows["share"] = rows["n"] / rows["judge"].map(n_judgments).astype("float64")
    rows["what_to_do"] = rows["error"].map(ADVICE).astype("str")
    rows = rows[["error", "judge", "n", "share", "items", "what_to_do"]].astype({"n": "int64", "items": "str"})
    return rows.sort_values("n", ascending=False, kind="stable", ignore_index=True)
