from .scorers import judge_scorer as judge_scorer
