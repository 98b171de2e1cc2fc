"""Spans of runs, turns and calls, and their export to OpenTelemetry."""
