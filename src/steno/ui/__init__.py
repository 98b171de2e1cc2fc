"""The terminal interfaces of a session, full-screen (`ui.tui`) and line by line (`ui.plain`).

Both use `app.session.AgentSession`. They import no provider, store or tool.
"""
