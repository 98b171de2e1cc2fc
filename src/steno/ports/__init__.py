"""What the parts that touch the world look like from inside: protocols, and nothing that acts.

A `Provider` answers requests with a `Stream` of events, and a `Transport` carries bytes for it; a
`Tool` does what a model asks for, once an `Approver` agreed; a `Resolver` opens what a person
points at; a `Journal` keeps what was said. Who
writes one of these needs to know nothing else of steno, and who uses one nothing about it.
"""

from steno.ports.approver import Approver, Grants, Question, Scope, Verdict
from steno.ports.carrier import Answer, Outgoing, Transport, without_secrets
from steno.ports.kept import Blobs, Journal
from steno.ports.model import Provider, Stream
from steno.ports.resolver import Finding, Permits, Pointer, Resolver, Viewer
from steno.ports.tool import UNSURE, Capability, Fit, Stage, Tool, ToolOutput

__all__ = [
    "UNSURE",
    "Answer",
    "Approver",
    "Blobs",
    "Capability",
    "Finding",
    "Fit",
    "Grants",
    "Journal",
    "Outgoing",
    "Permits",
    "Pointer",
    "Provider",
    "Question",
    "Resolver",
    "Scope",
    "Stage",
    "Stream",
    "Tool",
    "ToolOutput",
    "Transport",
    "Verdict",
    "Viewer",
    "without_secrets",
]
