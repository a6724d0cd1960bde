"""Whether two sides asked the same judges the same prompts, so that only the judges can have changed."""

from __future__ import annotations

from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.stats.comparison.sides import JudgmentsLike, judgments_of

_SETTINGS = ["rubric", "rubric_version", "criterion", "judge"]
_TO_COMPARE = "same_prompts=True needs {} on both sides; to compare sides that differ in these, leave it out"


def refuse_other_prompts(before: JudgmentsLike, after: JudgmentsLike, scale: ScaleLike | None) -> str | None:
    """InputError unless common items have the same settings and prompts; a note where that cannot be known."""
    sides = judgments_of(before, "before", scale), judgments_of(after, "after", scale)
    common = set(sides[0]["item_id"]) & set(sides[1]["item_id"])
    first, second = (side.loc[side["item_id"].isin(common).to_numpy()] for side in sides)
    for names in (_SETTINGS, [*_SETTINGS, "sample"]):
        then, now = (set(side[names].astype(str).itertuples(index=False, name=None)) for side in (first, second))
        if then != now:
            unmatched = listed([" ".join(settings) for settings in sorted(then ^ now)], most=3)
            needed = _TO_COMPARE.format("the same rubric version, judges and samples")
            raise InputError(f"only one side has {', '.join(names)} {unmatched}; {needed}")
    if first["key"].isna().any() or second["key"].isna().any():
        return "settings of the judges not known, because the table does not come from judge"
    if n_other := len(set(first["key"]) ^ set(second["key"])):
        needed = _TO_COMPARE.format("the same prompts")
        raise InputError(
            f"the sides differ in {counted(n_other, 'reply key')}: the texts of an item, the rubric, the template "
            f"or a setting of a judge changed; {needed}"
        )
    for name in ("score_sd", "score_mass"):  # two readings of scores share their reply keys
        has = [name in side and side[name].notna().any() for side in (first, second)]
        if has[0] != has[1]:
            raise InputError(
                f"only {'before' if has[0] else 'after'} has {name}: the sides read scores in two ways (score= of a "
                "judge), or the service gave no log-probabilities on one side; read both in the same way"
            )
    return None
