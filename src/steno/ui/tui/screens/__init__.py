"""Panels and screens over the transcript: approvals, tree, comparison, sessions, pager, dialogs."""
