"""One run of LightEval: resolved from packs, started, recorded, shown, compared."""
