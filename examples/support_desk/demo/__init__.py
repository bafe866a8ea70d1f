"""The demo of `make demo`: what it opens with, who may log in, what it prints."""
