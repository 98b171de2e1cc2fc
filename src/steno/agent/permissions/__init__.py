"""Permission rules, the gate that applies them, grants and approvers."""
