"""Strategies for the log: payloads, entries, whole documents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno.codec import Document
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Compaction,
    Control,
    Entry,
    Feedback,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
    Rewind,
)
from steno.testing.strategies.block_strategies import images, opaque_blocks, resources, text_blocks
from steno.testing.strategies.message_strategies import messages
from steno.testing.strategies.primitive_strategies import (
    identifiers,
    json_objects,
    moments,
    named_strategy,
    texts,
)


@named_strategy
def controls() -> SearchStrategy[Control]:
    """Payloads that steer the conversation and never reach a model."""
    modes = st.sampled_from(Mode)
    return st.one_of(
        st.builds(ModeChange, old=modes, new=modes),
        st.builds(BranchSwitch, old=identifiers(), new=identifiers()),
        st.builds(Rewind, left=identifiers()),
        st.builds(ModelChange, old=texts(), new=identifiers()),
        st.builds(Label, target=identifiers(), text=identifiers()),
        st.builds(Compaction, through=identifiers(), summary=identifiers()),
    )


@named_strategy
def approvals() -> SearchStrategy[Approval]:
    """Decisions about calls, by a user or by a rule, and pending ones."""
    decided = st.sampled_from((ApprovalStatus.APPROVED, ApprovalStatus.DENIED))
    common: dict[str, SearchStrategy[Any]] = {
        "call_id": identifiers(),
        "arguments_sha256": _digests(),
        "reason": st.none() | texts(),
    }
    return st.one_of(
        st.builds(Approval, **common, status=st.just(ApprovalStatus.PENDING)),
        st.builds(Approval, **common, status=decided, actor=texts(), rule=st.none() | texts()),
        st.builds(Approval, **common, status=decided, rule=texts()),
    )


@named_strategy
def resolutions() -> SearchStrategy[Resolution]:
    """Results of resolving references: resolved, failed or pending."""
    block = st.one_of(text_blocks(), images(), resources(), opaque_blocks())
    common: dict[str, SearchStrategy[Any]] = {
        "target": identifiers(),
        "block": st.integers(0, 2**70),
        "details": st.none() | json_objects(),
    }
    return st.one_of(
        st.builds(Resolution, **common, status=st.just(ResolutionStatus.PENDING)),
        st.builds(Resolution, **common, status=st.just(ResolutionStatus.FAILED), error=texts()),
        st.builds(
            Resolution,
            **common,
            status=st.just(ResolutionStatus.RESOLVED),
            content=st.lists(block, min_size=1, max_size=3).map(tuple),
        ),
    )


@named_strategy
def payloads() -> SearchStrategy[Payload]:
    """Payloads of every kind: messages, controls, decisions, findings, unknown ones."""
    return st.one_of(
        messages(),
        controls(),
        approvals(),
        resolutions(),
        st.builds(Feedback, target=identifiers(), text=identifiers()),
        st.builds(
            Repair, code=identifiers(), explanation=identifiers(), target=st.none() | texts()
        ),
        st.builds(
            Redacted,
            kind=identifiers(),
            sha256=_digests(),
            audit_sha256=st.none() | _digests(),
            unknown_sha256=st.none() | _digests(),
        ),
        st.builds(Redaction, target=identifiers(), actor=identifiers(), reason=identifiers()),
        opaque_blocks(),
    )


def _digests() -> SearchStrategy[str]:
    return st.binary(min_size=32, max_size=32).map(bytes.hex)


@named_strategy
def entries() -> SearchStrategy[Entry]:
    """Single entries of a log."""
    return st.builds(
        Entry,
        id=identifiers(),
        parent=st.none() | identifiers(),
        time=st.none() | moments(),
        payload=payloads(),
        decision=st.none() | texts(),
        audit=st.none() | json_objects(),
    )


@named_strategy
def documents() -> SearchStrategy[Document]:
    """Whole conversations; each entry but the first has the one before it as its parent."""
    return st.builds(
        Document,
        id=st.none() | texts(),
        created_at=st.none() | moments(),
        updated_at=st.none() | moments(),
        entries=st.lists(entries(), max_size=4, unique_by=lambda entry: entry.id).map(_chain),
    )


def _chain(entries: list[Entry]) -> tuple[Entry, ...]:
    later = (msgspec.structs.replace(own, parent=before.id) for before, own in pairwise(entries))
    return (*entries[:1], *later)
