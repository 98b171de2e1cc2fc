"""What a person works with in a terminal: full-screen (`app`), or line by line (`plain`).

Both are faces of a desk (`desk`), the port behind which an agent works. Nothing here knows a
provider, a store or a tool.
"""
