"""What signs in a play of chaos; of no use anywhere else."""

TRIGGERS = "only-for-chaos-only"
HMAC_SECRET = "kept for a play of chaos, and for nothing else"
