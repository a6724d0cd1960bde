"""The variance of a mean over clusters, as the page of figures has it, in plain Python."""

from __future__ import annotations


def plain_variance(values, clusters):
    """The formula of the page, in plain Python."""
    members = {}
    for value, cluster in zip(values, clusters, strict=True):
        members.setdefault(cluster, []).append(float(value))
    n, mean = len(values), sum(map(float, values)) / len(values)
    sizes = [len(group) for group in members.values()]
    robust = sum(sum(v - mean for v in group) ** 2 / (1 - len(group) / n) for group in members.values())
    centers = [sum(group) / len(group) for group in members.values()]
    among = sum(m * (c - mean) ** 2 for m, c in zip(sizes, centers, strict=True)) / (len(sizes) - 1)
    apart = sum((v - c) ** 2 for group, c in zip(members.values(), centers, strict=True) for v in group)
    within = apart / (n - len(sizes)) if n > len(sizes) else 0.0
    usual = (n - sum(m * m for m in sizes) / n) / (len(sizes) - 1)
    between = max(0.0, (among - within) / usual)
    rho = between / (between + within) if between > 1e-12 else 0.0
    spread = sum((v - mean) ** 2 for v in map(float, values)) / n
    return max(robust, spread * sum(m * (1 + (m - 1) * rho) for m in sizes)) / n**2
