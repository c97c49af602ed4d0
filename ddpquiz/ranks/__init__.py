"""Ranks, started, watched and stopped: of runs, proofs and elastic jobs; and jobs of other launchers, found here."""
