"""What Sayso costs, measured beside peers and a floor in the same run; `README.md` says how."""
