"""Scenario P written for each product, one file each, run in environments of their own."""
