"""Metrics catalogue, recording rules, alerts and dashboards."""
