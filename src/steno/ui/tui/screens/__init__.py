"""Panels and screens over the transcript: approvals, tree, sessions, pager and dialogs."""
