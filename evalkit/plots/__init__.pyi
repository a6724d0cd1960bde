from .confusion import plot_confusion as plot_confusion
from .cost import plot_cost as plot_cost
from .judge_agreement import plot_agreement as plot_agreement
from .judge_agreement import plot_disagreement as plot_disagreement
from .phi_grid import plot_phi_grid as plot_phi_grid
from .sample_curve import plot_k_curve as plot_k_curve
from .score_distribution import plot_scores as plot_scores
from .version_comparison import plot_versions as plot_versions
