"""What is laid over the conversation: approvals, the tree, sessions, long texts, small pickers."""
