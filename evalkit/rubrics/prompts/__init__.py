"""Prompts: sandboxed templates, fenced inputs, hashes."""
