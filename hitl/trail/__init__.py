"""What becomes of the audit trail once it is written: sealed, verified, shown, exported, blanked.

Its rows are written by `hitl/audit.py`; nothing here writes one that tells of a decision.
"""
