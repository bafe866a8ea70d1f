"""The demo tried unattended: `make demo CHECK=1`. A person's part is played over HTTP."""
