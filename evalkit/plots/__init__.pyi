from .calibration import plot_calibration as plot_calibration
from .confusion import plot_confusion as plot_confusion
from .judge_agreement import plot_agreement as plot_agreement
from .judge_agreement import plot_cost as plot_cost
from .judge_agreement import plot_disagreement as plot_disagreement
from .score_distribution import plot_scores as plot_scores
from .system_ranks import plot_rank as plot_rank
from .version_comparison import plot_versions as plot_versions
