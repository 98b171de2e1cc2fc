"""The log of a conversation: entries in a tree, their hash chain, branches, queries and blobs."""
